"""The order of the packages: imports go one way and without cycles."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = (
    *("errors", "registry", "progress", "declared_options", "evolution_parameters"),
    *("parallel", "files", "shortfalls"),
    *("primitives", "searchspaces"),
    *("language", "models", "export", "runs", "inputs", "benchmarks", "scoring"),
    *("statistics", "engine", "zoo", "training", "evolution", "rediscovery", "nas", "oneshot"),
    *("configurations", "evaluation", "commands", "loaded_runs", "report", "runner"),
    *("api", "cli", "__main__", "testing"),
)
LATE = {  # modules that import late: help and the package itself must be there at once
    *("autoprox", "autoprox.api", "autoprox.benchmarks", "autoprox.loaded_runs"),
    *("autoprox.files.data_frames", "autoprox.nas.blockwise_evolution"),
    *("autoprox.inputs.isolated_reading", "autoprox.__main__", "autoprox.parallel.dask_cluster"),
    *("autoprox.configurations.shared_options", "autoprox.scoring.baselines"),
    *(
        "autoprox.cli.bench_commands",
        "autoprox.cli.command_factory",
        "autoprox.cli.export_commands",
        "autoprox.cli.machine_commands",
        "autoprox.cli.run_commands",
        "autoprox.cli.score_command",
        "autoprox.cli.show_commands",
        "autoprox.cli.suggest_command",
        "autoprox.cli.supernet_commands",
    ),
}


def modules() -> dict[str, ast.Module]:
    """Every module by its name."""
    found = {}
    for top in ("autoprox", "primitives", "searchspaces"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if top == "autoprox" else ("autoprox", *parts))
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


MODULES = modules()


def imported(name: str, nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The modules of ours that these statements import."""
    package = name if name in PACKAGES else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*up, node.module or ""]).strip(".") if node.level else node.module
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield whole if whole in MODULES else str(base)


PACKAGES = {name for name in MODULES if any(other.startswith(f"{name}.") for other in MODULES)}
IMPORTS = {
    name: {other for other in imported(name, ast.walk(tree)) if other in MODULES}
    for name, tree in MODULES.items()
}


def place(name: str) -> int:
    """How high a module's package stands."""
    return ORDER.index(name.split(".")[1])


def test_every_package_has_its_place() -> None:
    assert {name.split(".")[1] for name in MODULES if "." in name} == set(ORDER)


def test_imports_go_one_way() -> None:
    against = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if "." in name and "." in other and place(other) > place(name)
    ]
    assert against == []


def test_modules_of_a_package_import_no_circle() -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a circle: {' -> '.join([*above, name])}"
        if name not in done:
            for other in IMPORTS[name] - {name.rpartition(".")[0]}:
                visit(other, (*above, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


def test_nothing_is_imported_late_but_for_a_quick_start() -> None:
    late = {
        ".".join(name.split(".")[:2]) if name.startswith("autoprox.benchmarks") else name
        for name, tree in MODULES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert late == LATE


@pytest.mark.parametrize("package", sorted(PACKAGES - {"autoprox", "autoprox.zoo.functions"}))
def test_every_package_says_what_it_is(package: str) -> None:
    lines = (ast.get_docstring(MODULES[package]) or "").splitlines()
    assert 3 <= len(lines) <= 6
