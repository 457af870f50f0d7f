"""Options that a strategy of evolution has of its own: set, recorded, kept on resume, refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import pytest
from deap import base
from helpers.tables import table

from autoprox.configurations.commands import EvolveConfig
from autoprox.declared_options import Option, Options, Probability
from autoprox.errors import ConfigError, MeasurementError
from autoprox.evolution import STRATEGIES, EvolutionError, EvolutionParameters, EvolutionStrategy
from autoprox.runner import resume_run, start
from autoprox.testing import check_evolution_strategy

SEEN: list[tuple[float, int]] = []


class ShareParameters(EvolutionParameters):
    """An option of its own."""

    share: Annotated[Probability, Option("Part of the children that are newcomers.")] = 1.0


def vary(
    population: Sequence[Any], toolbox: base.Toolbox, parameters: ShareParameters, rng: Random
) -> list[Any]:
    SEEN.append((parameters.share, parameters.children))
    newcomers = round(parameters.share * parameters.children)
    trees = [toolbox.generate(rng) for _ in range(newcomers)]
    mutants = [toolbox.mutate(population[0].tree, rng) for _ in range(newcomers, 4)]
    return [(None, tree) for tree in (*trees, *mutants)]


SHARE = EvolutionStrategy(vary, parameters=ShareParameters)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def options(tmp_path: Path, cache: str) -> dict[str, Any]:
    """A quick evolution."""
    SEEN.clear()
    (tmp_path / "mine.json").write_text(json.dumps(table(24)))
    return {
        "benchmark": str(tmp_path / "mine.json"),
        **{"cache": cache, "batch_size": 2, "workers": 1, "zoo": ("none",)},
        **{"statistics": ("all.weight",), "population": 6, "iterations": 3, "children": 4},
        **{"max_size": 8, "max_depth": 6, "runs": tmp_path / "runs", "strategy": "share"},
    }


def several(options: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in options.items() if name != "benchmark"}
    return {**others, "spaces": (options["benchmark"],), "islands": 2, "halving": False}


@pytest.mark.parametrize("spaces", [False, True])
def test_set_options_are_recorded_and_kept_on_resume(
    options: dict[str, Any], spaces: bool, tmp_path: Path
) -> None:
    def stop(task: str, done: int, total: int, note: str) -> None:
        if len(SEEN) == 2:
            raise MeasurementError("stopped")

    given = several(options) if spaces else options
    with STRATEGIES.trial("share", SHARE):
        whole = start(EvolveConfig(**given, set={"share": "0.5"}))
        expected = SEEN.copy()
        SEEN.clear()
        with pytest.raises(MeasurementError):
            start(EvolveConfig(**given, set={"share": 0.5}, name="cut"), stop)
        [cut] = (tmp_path / "runs").glob("*-cut")
        assert json.loads((cut / "config.json").read_text())["set"] == {"share": 0.5}
        again = resume_run(cut)
    assert {*expected, *SEEN} == {(0.5, 4)}
    alike = {"run": "", "seconds": 0}
    assert again.model_copy(update=alike) == whole.model_copy(update=alike)


def test_defaults_are_recorded_too(options: dict[str, Any]) -> None:
    with STRATEGIES.trial("share", SHARE):
        run = start(EvolveConfig(**{**options, "iterations": 1})).run
    assert json.loads((Path(run) / "config.json").read_text())["set"] == {"share": 1.0}
    assert set(SEEN) == {(1.0, 4)}


@pytest.mark.parametrize(
    ("strategy", "given", "message"),
    [
        ("share", {"shaer": 0.5}, r"unknown option 'shaer' of share \(did you mean share\?\)"),
        ("share", {"children": 3}, r"unknown option 'children' of share; choose from share"),
        ("share", {"share": 2.0}, r"share must be a number > 0 and <= 1, but got 2.0"),
        ("mixture", {"share": 0.5}, r"'share' of mixture, which has no options of its own"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], strategy: str, given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with STRATEGIES.trial("share", SHARE), pytest.raises(ConfigError, match=message):
        start(EvolveConfig(**{**options, "strategy": strategy, "set": given}))
    assert not (tmp_path / "runs").exists()


def test_a_strategy_with_options_passes_the_suite() -> None:
    check_evolution_strategy(SHARE)


def test_parameters_extend_those_of_all_strategies() -> None:
    wrong: Any = Options
    with pytest.raises(EvolutionError, match="must be a subclass of `EvolutionParameters`"):
        STRATEGIES.register("wrong", EvolutionStrategy(vary, parameters=wrong))
