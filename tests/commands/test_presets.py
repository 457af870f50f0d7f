"""Presets: the options they set, options given as well, and resumed runs."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.tables import table

import autoprox
from autoprox.configurations.commands import PRESETS, EvolveConfig
from autoprox.errors import ConfigError
from autoprox.evolution import STRATEGIES
from autoprox.language import parse_expression


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_valid_configuration(name: str) -> None:
    config = EvolveConfig(preset=name)
    assert {option: getattr(config, option) for option in PRESETS[name]} == dict(PRESETS[name])
    assert config.strategy in STRATEGIES


def test_the_preset_of_auto_prox_is_as_published() -> None:
    config = EvolveConfig(preset="auto-prox")
    assert (config.population, config.iterations, config.children) == (20, 200, 1)
    assert (config.strategy, config.representation) == ("elitist", "two-inputs")
    assert config.margin == 0.1 / 100


def test_given_options_override_a_preset() -> None:
    config = EvolveConfig(preset="auto-prox", iterations=7, margin=0.0, strategy="random")
    assert (config.iterations, config.margin, config.strategy) == (7, 0.0, "random")
    assert config.population == 20
    assert EvolveConfig(iterations=7).representation == "free"


def test_the_help_lists_the_options_of_a_preset() -> None:
    said = {n: o.help for n, _, o in EvolveConfig.described()}["preset"]
    assert "auto-prox: --form tree --representation two-inputs --strategy elitist" in said
    assert "--population 20 --iterations 200 --children 1" in said
    assert "preset" in inspect.signature(autoprox.evolve).parameters


def test_an_unknown_preset_or_representation_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^unknown preset 'autoprox' \(did you mean auto-prox\?"):
        EvolveConfig(preset="autoprox")
    with pytest.raises(
        ConfigError, match=r"^unknown representation 'trees' .*choose from free, two-inputs$"
    ):
        autoprox.evolve(representation="trees", progress=False)


class StoppedError(Exception):
    """The exception that interrupts a run."""


def test_a_resumed_run_keeps_its_preset(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(table(24)))
    options: dict[str, Any] = {
        "preset": "auto-prox",
        "benchmark": tmp_path / "mine.json",
        "datasets": ["wide"],
        "iterations": 4,
        "population": 5,
        "statistics": ["msa.weight", "mlp.weight"],
        "batch_size": 1,
        "zoo": ["none"],
        "runs": tmp_path,
        "cache": tmp_path / "cache",
    }

    def stop(task: str, done: int, total: int, note: str) -> None:
        if (task, done) == ("evolve", 2):
            raise StoppedError

    with pytest.raises(StoppedError):
        autoprox.evolve(progress=stop, name="stopped", **options)
    [stopped] = tmp_path.glob("*-stopped")
    stored = json.loads((stopped / "config.json").read_text())
    assert (stored["preset"], stored["representation"], stored["iterations"]) == (
        "auto-prox",
        "two-inputs",
        4,
    )
    resumed = autoprox.resume(stopped, progress=False).to_dict()
    whole = autoprox.evolve(progress=False, **options).to_dict()
    own = {"run", "seconds"}
    assert {k: v for k, v in resumed.items() if k not in own} == {
        k: v for k, v in whole.items() if k not in own
    }
    tree = parse_expression(whole["expression"])
    assert tree.type.level == "Network"
    assert tree.size <= 11
