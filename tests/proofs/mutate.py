"""Changes the code, and looks whether its tests fail.

    python tests/proofs/mutate.py AREA... [options]

A mutant has one comparison, operation, constant, condition or returned value changed. Of each area
a seeded sample is run, each in a process of its own, with the area's tests, until one fails. What
is known of a mutant is in `--out`, so that a run that is stopped goes on. The program's libraries
are imported once: other tools, which begin a process for each mutant, take seconds to import them.
"""

import argparse
import ast
import importlib.abc
import importlib.machinery
import io
import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS = 120  # of a processor, for the tests of a mutant: beyond that it is killed
AREAS = {
    "language": ("autoprox/language", "tests/language"),
    "fitness": (
        "autoprox/scoring/fitness_correlations.py autoprox/scoring/correlations.py",
        "tests/scoring",
    ),
    "store": (
        "autoprox/statistics/matrix_cache.py autoprox/statistics/matrix_sources.py",
        "tests/statistics/test_store.py tests/statistics/test_cache_folder.py "
        "tests/statistics/test_failing_networks.py tests/statistics/test_two_processes.py",
    ),
    "runs": ("autoprox/runs", "tests/runs tests/cli/test_runs.py"),
}
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATIONS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


class Mutant(NamedTuple):
    """The file, the number of the node in it, and what is done to that."""

    file: str
    node: int
    line: int
    change: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line} {self.change} #{self.node}"


def changed(node: ast.AST) -> str:
    """Change a node in place; says how, or nothing if there is nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        before = node.ops[0]
        node.ops[0] = COMPARISONS[type(before)]()
        return f"{type(before).__name__} to {type(node.ops[0]).__name__}"
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATIONS:
        before_op = node.op
        node.op = OPERATIONS[type(before_op)]()
        return f"{type(before_op).__name__} to {type(node.op).__name__}"
    if isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return f"to {type(node.op).__name__}"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        return f"constant to {node.value}"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "condition negated"
    if isinstance(node, ast.Return) and node.value is not None:
        node.value = ast.Constant(None)
        return "None returned"
    return ""


def mutants(file: Path) -> Iterator[Mutant]:
    """All mutants of a file; annotations stay."""
    tree = ast.parse(file.read_text())
    kept = {id(part) for node in ast.walk(tree) for part in annotations(node)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in kept and (change := changed(node)):
            yield Mutant(
                file.relative_to(ROOT).as_posix(), number, getattr(node, "lineno", 0), change
            )


def annotations(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        if isinstance(part := getattr(node, name, None), ast.AST):
            yield from ast.walk(part)


class Loader(importlib.abc.MetaPathFinder):
    """Gives the mutated source of a module."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        loader = importlib.machinery.SourceFileLoader(name, str(ROOT / self.mutant.file))
        loader.source_to_code = lambda data, path, **_: self.compiled(data, path)  # type: ignore
        loader.get_code = lambda _: self.compiled((ROOT / self.mutant.file).read_bytes(), path)  # type: ignore
        assert spec is not None
        spec.loader = loader
        return spec

    def compiled(self, data: bytes, path: Any) -> Any:
        tree = ast.parse(data)
        changed([*ast.walk(tree)][self.mutant.node])
        return compile(ast.fix_missing_locations(tree), str(ROOT / self.mutant.file), "exec")


def fails(mutant: Mutant | None, tests: Sequence[str]) -> bool:
    """Whether a test fails with the mutant, in a process that is forked here."""
    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        code = 1
        try:
            import pytest

            if mutant:
                sys.meta_path.insert(0, Loader(mutant))
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                code = int(pytest.main(["-x", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="+", choices=AREAS)
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=ROOT / "runs/measured/mutation.json")
    given = parser.parse_args()
    import numpy, pydantic, scipy.stats, sympy, torch  # noqa: E401, F401, I001

    torch.set_num_threads(1)
    os.chdir(ROOT)
    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    began = time.monotonic()
    for area in given.areas:
        files, tests = ([*map(Path, words.split())] for words in AREAS[area])
        paths = [p for f in files for p in (sorted(f.glob("*.py")) if f.is_dir() else [f])]
        every = [mutant for path in paths for mutant in mutants(ROOT / path)]
        sample = sorted(every, key=lambda m: random.Random(m.key).random())[: given.sample]
        own = known.setdefault(area, {"mutants": len(every), "killed": {}})
        if any(m.key not in own["killed"] for m in sample) and fails(None, [*map(str, tests)]):
            raise RuntimeError(f"the tests of {area} must pass without a mutant")
        for mutant in sample:
            if mutant.key not in own["killed"] and time.monotonic() - began < given.seconds:
                own["killed"][mutant.key] = fails(mutant, [*map(str, tests)])
                given.out.write_text(json.dumps(known, indent=1) + "\n")
        print(area, sum(own["killed"].values()), "of", len(own["killed"]), "killed")


if __name__ == "__main__":
    main()
