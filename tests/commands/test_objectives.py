"""Discoveries by other objectives, what they are compared with, and bad input."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.tables import table

from autoprox.commands.evolve import Evolve
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.evaluator import Engine
from autoprox.errors import ConfigError
from autoprox.evaluation.cached_zoo import Zoo
from autoprox.evolution import METRICS, Individual
from autoprox.language import parse, statistics
from autoprox.runner import resume, start
from autoprox.statistics.networks import SpaceNetwork
from autoprox.zoo.expressions import PROXIES
from autoprox.zoo.functions import function_proxy

Options = dict[str, Any]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A discovery on 50 networks, whose scores are worth something at equal size too."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "mine.json").write_text(json.dumps(table(50)))
    return {
        **{"benchmark": str(folder / "mine.json"), "cache": str(folder / "cache")},
        **{"batch_size": 2, "workers": 1, "zoo": ("snip", "dss++"), "statistics": ("all.weight",)},
        **{"population": 6, "iterations": 4, "children": 4, "max_size": 8, "max_depth": 6},
    }


@pytest.mark.parametrize("objective", METRICS)
def test_the_front_is_kept_and_one_of_it_chosen(
    options: Options, objective: str, tmp_path: Path
) -> None:
    summary = start(EvolveConfig(**options, objective=objective, runs=tmp_path))
    front = summary["front"]
    metrics = METRICS[objective]
    points = [(*(own[m] for m in metrics), -own["size"]) for own in front]
    for one in points:
        others = [other for other in points if other != one]
        assert not any(all(o >= x for o, x in zip(other, one, strict=True)) for other in others)
    assert [own["size"] for own in front] == sorted(own["size"] for own in front)
    assert summary["expression"] in [own["expression"] for own in front if own["chosen"]]
    folder = Path(summary["run"]) / "hall_of_fame"
    assert len(list(folder.iterdir())) >= len({own["expression"] for own in front})
    assert resume(Path(summary["run"])) == summary


def test_a_tolerance_of_nothing_takes_the_best(options: Options, tmp_path: Path) -> None:
    summary = start(EvolveConfig(**options, tolerance=0.0, runs=tmp_path))
    [chosen] = [own for own in summary["front"] if own["chosen"]]
    assert chosen["jcm"] == max(own["jcm"] for own in summary["front"])


def test_structure_is_read_only_where_it_is_asked_for(options: Options) -> None:
    without, having = (Evolve(EvolveConfig(**options, structure=s)) for s in (False, True))
    assert set(having.grammar.terminals) - set(without.grammar.terminals) == {
        *("width", "tokens", "heads", "one")
    }


def test_the_best_of_the_zoo_is_chosen_on_the_training_networks(options: Options) -> None:
    task = Evolve(EvolveConfig(**options))
    scores, refused = zoo = task.zoo()
    found = task.whole({}).measured(parse("sum(width)"), zoo)
    assert refused == {}
    best = found["zoo"]["best"]
    assert found["zoo"]["compared"] == ["snip", "dss++"]
    for figure, name in best.items():
        judge = task.judge(task.parts["train"].tolist())
        worths = {
            own: judge.mean({d: v[task.parts["train"]] for d, v in scores[own].items()})
            for own in scores
        }
        assert name == max(worths, key=lambda own: getattr(worths[own], figure)[0])
        assert found["means"][name]["train"][figure] == getattr(worths[name], figure)[0]
    again = task.zoo().scores  # of the cache
    for name, own in scores.items():
        for dataset, values in own.items():
            np.testing.assert_array_equal(again[name][dataset], values)


def test_one_pass_measures_the_formula_and_the_zoo(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(network: SpaceNetwork, device: torch.device) -> Any:
        built[network.identity] += 1
        return build(network, device)

    built, build = Counter[Any](), SpaceNetwork.build
    alone = Evolve(EvolveConfig(**{**options, "cache": str(tmp_path / "alone")})).zoo()
    monkeypatch.setattr(SpaceNetwork, "build", counted)
    task = Evolve(EvolveConfig(**{**options, "cache": str(tmp_path / "together")}))
    whole, tree = task.whole({}), parse("sum(mean(sqrt(all.grad)))")
    found = Individual(tree, jcm=-1.0)
    assert whole.chosen(found, [found]) == tree
    zoo = task.zoo()
    whole.measured(tree, zoo)
    networks = {network.identity for network in task.networks()}
    assert networks < set(built)  # and some with another seed
    assert set(built.values()) == {1}
    for name, own in alone.scores.items():
        for dataset, values in own.items():
            np.testing.assert_array_equal(zoo.scores[name][dataset], values)


def test_collection_measures_the_zoo_in_the_same_passes(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(network: SpaceNetwork, device: torch.device) -> Any:
        built[network.identity] += 1
        return build(network, device)

    built, build = Counter[Any](), SpaceNetwork.build
    names = ("snip", "naswot", "zico", "jacobian", "head_confidence")
    given = {**options, "statistics": ("all.weight", "mlp.grad"), "zoo": names}
    alone = Evolve(EvolveConfig(**{**given, "cache": str(tmp_path / "alone")}))
    without = Evolve(EvolveConfig(**{**given, "zoo": ("none",), "cache": str(tmp_path / "none")}))
    task = Evolve(EvolveConfig(**{**given, "cache": str(tmp_path / "together")}))
    tree = parse("sum(mean(sqrt(abs(mlp.grad))))")
    expected = Engine(without.collect()).evaluate([tree]).values
    zoo = alone.zoo().scores
    _ = task._published.measure  # builds a network to know which proxies refuse these inputs
    monkeypatch.setattr(SpaceNetwork, "build", counted)
    np.testing.assert_array_equal(Engine(task.collect()).evaluate([tree]).values, expected)
    train = [task.networks()[n].identity for n in task.parts["train"]]
    assert built == Counter(train)
    found = task.zoo().scores
    assert built == Counter(network.identity for network in task.networks())
    for name, own in zoo.items():
        for dataset, values in own.items():
            assert np.isfinite(values).all()
            np.testing.assert_array_equal(found[name][dataset], values)


def test_a_proxy_that_takes_other_inputs_is_left_out(options: Options) -> None:
    given = {**options, "batch_size": 1, "zoo": ("snip", "zico")}
    zoo = Evolve(EvolveConfig(**given)).zoo()
    assert list(zoo.scores) == ["snip"]
    assert "must have at least 2, but has 1" in zoo.refused["zico"]


def test_a_proxy_that_is_written_otherwise_is_measured_again(
    options: Options, written: Callable[[str, str], ModuleType]
) -> None:
    def value(text: str) -> float:
        function = written("own", f"def own(passes): return {text}\n").own
        with PROXIES.trial("own", function_proxy("own", "ours", "1")(function)):
            zoo = Evolve(EvolveConfig(**{**options, "zoo": ("own",)})).zoo()
        return float(next(iter(zoo.scores["own"].values()))[0])

    assert (value("1.0"), value("2.0"), value("1.0")) == (1, 2, 1)


@pytest.mark.parametrize(
    ("expression", "alone"),
    [
        ("sum(width)", True),
        ("sum(sum(sign(square(all.weight))))", True),  # counts the weights
        ("sum(frobenius_norm(all.weight))", True),  # of so many weights of a fixed deviation
        ("sum(mean(all.weight))", False),
        ("sum(sum(abs(mul(all.weight, all.grad))))", False),
        ("add(rank(sum(width)), rank(sum(mean(all.weight))))", False),
    ],
)
def test_a_function_of_the_choices_is_known_by_another_seed(
    options: Options, expression: str, alone: bool
) -> None:
    tree = parse(expression)
    share = Evolve(EvolveConfig(**options)).whole({}).measured(tree, Zoo({}, {}))["seed_share"]
    assert (share < 0.01) == alone
    assert (share == 0.0) == (not statistics(tree) or "sign" in expression)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"objective": "size"}, r"unknown objective 'size'.*choose from jcm, equal-size, both"),
        ({"ties": "half"}, r"unknown ties 'half'.*choose from unordered, tau-b"),
        ({"zoo": ("snpi",)}, r"unknown proxy 'snpi' \(did you mean snip\?\)"),
    ],
)
def test_wrong_choices(options: Options, changed: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Evolve(EvolveConfig(**{**options, **changed}))


@pytest.mark.parametrize("objective", ["size-adjusted", "both"])
def test_too_few_pairs_of_equal_size_are_no_objective(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.json").write_text(json.dumps(table(12)))
    found = run("evolve", "--benchmark", "few.json", "--objective", objective)
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert f"the objective {objective} needs 30 pairs of networks" in found.err
    assert not Path("runs").exists()
