"""The options of search strategies: declared with the strategy, known to all that reads them."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from helpers.commands import Command
from typer.testing import CliRunner

import autoprox
from autoprox.cli.command_factory import command
from autoprox.configurations.commands import SearchConfig
from autoprox.declared_options import Option, Options, Positive, described_together, rule_of
from autoprox.errors import ConfigError
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES, SearchParameters, SearchStrategy

GIVEN = {"space": "autoformer-nano", "proxy": "sum(mul(width, heads))"}
FLAGS = [f"--{name}={value}" for name, value in GIVEN.items()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the searches run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


class LotsParameters(SearchParameters):
    """An option that several strategies have, and one that no other has."""

    samples: Annotated[Positive, Option("Lots.")] = 2
    size_of_lots: Annotated[Positive, Option("Architectures of a lot.")] = 1

    @property
    def candidates(self) -> int:
        return self.samples * self.size_of_lots


def search_lots(searcher: Searcher, settings: LotsParameters) -> None:
    for _ in range(settings.samples):
        searcher.score(searcher.samples(settings.size_of_lots))
        searcher.step()


LOTS = SearchStrategy(search_lots, LotsParameters)


def config_of(run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(run) / "config.json").read_text())
    return found


@pytest.mark.parametrize("flag", ["--size-of-lots=4", "--set=size_of_lots=4"])
def test_a_new_strategy_has_its_options_on_the_command_line(flag: str) -> None:
    with SEARCH_STRATEGIES.trial("lots", LOTS):
        app = typer.Typer()
        app.command()(command(SearchConfig))
        done = CliRunner().invoke(app, [*FLAGS, "--strategy=lots", flag, "--samples=3", "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        shown = CliRunner().invoke(app, ["--help-all"]).stdout
    assert found["evaluations"] == 3 * 4
    assert config_of(found["run"])["set"] == {"samples": 3, "size_of_lots": 4}
    assert "─ lots ─" in shown
    assert "--size-of-lots" in shown
    assert "lots: Lots." in " ".join(shown.replace("│", " ").split())


def test_the_command_sets_the_options_of_a_plug_in(run: Command) -> None:
    with SEARCH_STRATEGIES.trial("lots", LOTS):
        done = run("search", *FLAGS, "--strategy=lots", "--set=size_of_lots=4", "--json")
        assert done.json["evaluations"] == 2 * 4
        wrong = run("search", *FLAGS, "--strategy=lots", "--set=size_of_lot=4")
    message = "unknown option 'size_of_lot' of lots (did you mean size_of_lots?); choose from "
    assert wrong.err == f"error: {message}samples, size_of_lots\n"


def test_python_takes_options_by_name_and_in_set() -> None:
    with SEARCH_STRATEGIES.trial("lots", LOTS):
        found = [
            autoprox.search(**GIVEN, strategy="lots", progress=False, **own).to_dict()
            for own in ({"size_of_lots": 4}, {"set": {"size_of_lots": 4}})
        ]
    configs = [config_of(one["run"]) for one in found]
    assert configs[0] == configs[1]
    assert configs[0]["set"] == {"samples": 2, "size_of_lots": 4}
    assert not {"samples", "size_of_lots"} & set(configs[0])


def test_an_option_of_another_strategy_is_refused(run: Command) -> None:
    done = run("search", *FLAGS, "--strategy=blockwise", "--sample=3")
    assert done.code == 2
    done = run("search", *FLAGS, "--strategy=blockwise", "--patience=3")
    assert done.err.startswith("error: unknown option 'patience' of blockwise; choose from cogn")


@pytest.mark.parametrize(("flag", "value"), [("--steps", "0"), ("--share", "2"), ("--set", "x=y")])
def test_a_wrong_value_is_one_line(run: Command, flag: str, value: str, folder: Path) -> None:
    done = run("search", *FLAGS, "--strategy=blockwise", flag, value)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not (folder / "runs").exists()


def test_a_run_whose_options_are_recorded_one_by_one_goes_on() -> None:
    """So did versions that listed the options of all strategies in config.json."""
    whole = autoprox.search(**GIVEN, samples=7, progress=False).to_dict()
    path = Path(whole["run"])
    config = config_of(whole["run"])
    del config["set"]
    old = {**config, "samples": 7, "population": None, "steps": None, "set": None}
    (path / "config.json").write_text(json.dumps(old))
    (path / "summary.json").unlink()
    assert autoprox.resume(path, progress=False).to_dict()["evaluations"] == 7


def test_built_in_options_are_explained_and_agree() -> None:
    """An option that several strategies have is of one kind, so that one line describes it."""
    rules: dict[str, set[str]] = {}
    for strategy in SEARCH_STRATEGIES.registered.values():
        explained = {name for name, _, _ in strategy.settings.described()}
        assert explained == set(strategy.settings.model_fields)
        assert not explained & set(SearchConfig.model_fields)
        for name, field in strategy.settings.model_fields.items():
            rules.setdefault(name, set()).add(rule_of(field))
    assert all(len(own) == 1 for own in rules.values())


class One(Options):
    alone: Annotated[float, Option("Of one.")] = 0.5
    both: Annotated[Positive, Option("Of both.")] = 1
    other: Annotated[Positive, Option("In one.")] = 3


class Two(Options):
    both: Annotated[Positive, Option("Of both.")] = 2
    other: Annotated[Positive, Option("In two.")] = 3


def test_options_of_several_models_are_listed_once() -> None:
    found = {
        name: (option.group, option.help, option.default, option.metavar, field.default)
        for name, field, option in described_together({"one": One, "two": Two}, "Shared")
    }
    assert found == {
        "both": ("Shared", "Of both.", "one 1, two 2", "<int>", None),
        "other": ("Shared", "one: In one. two: In two.", "one 3, two 3", "<int>", None),
        "alone": ("one", "Of one.", "one 0.5", "<float>", None),
    }
    assert list(found)[:2] == ["both", "other"]
    assert One().both == 1


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigError, match="samples must be given once"):
        SearchConfig(**GIVEN, samples=3, set={"samples": 3})
