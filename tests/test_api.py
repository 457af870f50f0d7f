"""The Python functions: typed, documented, and quick to import."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import autoprox
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.errors import AutoproxError
from autoprox.loaded_runs import RESULTS
from autoprox.runs.folder import COMMANDS

FUNCTIONS = {
    "evolve": autoprox.evolve,
    "rank": autoprox.rank,
    "search": autoprox.search,
    "rediscover": autoprox.rediscover,
    "build": autoprox.bench_build,
    "supernet-train": autoprox.supernet_train,
    "supernet-eval": autoprox.supernet_eval,
    "prenas": autoprox.prenas,
    "s3": autoprox.s3,
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_signature_is_that_of_the_configuration(kind: str) -> None:
    signature = inspect.signature(FUNCTIONS[kind])
    fields = {name: field for name, field, _ in CONFIGURATIONS[kind].described()}
    assert list(signature.parameters) == list(fields)
    for name, parameter in signature.parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        required = parameter.default is inspect.Parameter.empty
        assert required or parameter.default == fields[name].default
        assert required is fields[name].is_required()
    assert signature.return_annotation is RESULTS[kind]
    assert "seed: Seed of" in (FUNCTIONS[kind].__doc__ or "")


def test_names_are_completed() -> None:
    assert {"evolve", "search", "load_proxy", "load_run", "resume", "__version__"} <= set(
        dir(autoprox)
    )
    with pytest.raises(AttributeError, match="no attribute 'evolv'"):
        autoprox.evolv  # noqa: B018


def test_the_package_stays_what_it_is_after_imports() -> None:
    code = (
        "import autoprox, sys\n"
        "assert 'torch' not in sys.modules\n"
        "import autoprox.nas.random_search, autoprox.commands.search, inspect\n"
        "assert inspect.isfunction(autoprox.search)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_functions_are_named_like_the_commands() -> None:
    commands = {COMMANDS.get(kind, kind).replace(" ", "_") for kind in CONFIGURATIONS}
    assert commands | {"resume", "runs", "score"} <= set(autoprox.__all__)
    assert all(callable(getattr(autoprox, name)) for name in commands)


def test_runs_are_listed(tmp_path: Path) -> None:
    """Also where the package of that name was imported before."""
    code = (
        "import autoprox.runs.folder, autoprox, sys\n"
        "assert autoprox.runs(sys.argv[1]) == autoprox.list_runs(sys.argv[1]) == []\n"
        "try: autoprox.runs('absent')\n"
        "except autoprox.AutoproxError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert done.stdout == "runs must be in a folder, but there is no folder absent\n", done.stderr


def test_wrong_options_are_told() -> None:
    with pytest.raises(AutoproxError, match=r"unknown option 'iteration'.*mean iterations"):
        autoprox.evolve(iteration=3)  # type: ignore[call-arg]
    with pytest.raises(AutoproxError, match=r"a rediscovery needs proxy, but got none"):
        autoprox.rediscover()  # type: ignore[call-arg]
