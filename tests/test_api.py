"""The Python functions: typed, documented, and quick to import."""

import inspect
import subprocess
import sys

import pytest

import autoprox
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.errors import AutoproxError
from autoprox.loaded_runs import RESULTS

FUNCTIONS = {
    "evolve": autoprox.evolve,
    "rank": autoprox.rank,
    "search": autoprox.search,
    "rediscover": autoprox.rediscover,
    "build": autoprox.build_benchmark,
    "supernet-train": autoprox.train_supernet,
    "supernet-eval": autoprox.evaluate_supernet,
    "prenas": autoprox.prefer,
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


def test_wrong_options_are_told() -> None:
    with pytest.raises(AutoproxError, match=r"unknown option 'iteration'.*mean iterations"):
        autoprox.evolve(iteration=3)  # type: ignore[call-arg]
    with pytest.raises(AutoproxError, match=r"a search needs proxy, but got none"):
        autoprox.search(space="pit")  # type: ignore[call-arg]
