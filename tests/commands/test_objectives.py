"""Evolutions by each objective, the published proxies they are compared with, and bad input."""

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
from helpers.evolutions import only_fold, only_problem
from helpers.tables import table

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import ConfigError
from autoprox.evaluation.cached_zoo_scores import ZooScores
from autoprox.evaluation.full_resolution_choice import choose_at_full_resolution
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evolution import METRICS, Individual
from autoprox.language import parse_expression, statistics
from autoprox.progress import silent
from autoprox.runner import resume_run, start
from autoprox.statistics.untrained_networks import SpaceNetwork
from autoprox.zoo.expression_proxies import PROXIES
from autoprox.zoo.functions import function_proxy

Options = dict[str, Any]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A quick evolution on 50 networks, many pairs of which are near in size."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "mine.json").write_text(json.dumps(table(50)))
    return {
        "form": "tree",
        **{"benchmark": str(folder / "mine.json"), "cache": str(folder / "cache")},
        **{"batch_size": 2, "workers": 1, "zoo": ("snip", "dss++"), "statistics": ("all.weight",)},
        **{"population": 6, "iterations": 4, "children": 4, "max_size": 8, "max_depth": 6},
    }


def problem_of(options: Options) -> SpaceProblem:
    """The problem that the space of an evolution poses."""
    return only_problem(EvolveTask(EvolveConfig(**options)))


@pytest.mark.parametrize("objective", METRICS)
def test_the_front_is_kept_and_one_of_it_chosen(
    options: Options, objective: str, tmp_path: Path
) -> None:
    summary = start(EvolveConfig(**options, objective=objective, runs=tmp_path))
    front = only_fold(summary).front
    metrics = METRICS[objective]
    points = [(*(getattr(own, m) for m in metrics), -own.size) for own in front]
    for one in points:
        others = [other for other in points if other != one]
        assert not any(all(o >= x for o, x in zip(other, one, strict=True)) for other in others)
    assert [own.size for own in front] == sorted(own.size for own in front)
    assert summary.expression in [own.expression for own in front if own.chosen]
    folder = Path(summary.run) / "hall_of_fame"
    proxies = [path for path in folder.iterdir() if path.stem.isdecimal()]
    assert len(proxies) >= len({own.expression for own in front})
    assert resume_run(Path(summary.run)) == summary


def test_without_tolerance_the_best_is_chosen(options: Options, tmp_path: Path) -> None:
    summary = start(EvolveConfig(**options, tolerance=0.0, runs=tmp_path))
    front = only_fold(summary).front
    [chosen] = [own for own in front if own.chosen]
    assert chosen.jcm == max(own.jcm for own in front)


def test_structure_is_read_only_if_requested(options: Options) -> None:
    without, having = (EvolveTask(EvolveConfig(**options, structure=s)) for s in (False, True))
    assert set(having.grammar.terminals) - set(without.grammar.terminals) == {
        *("width", "tokens", "heads", "one")
    }


def test_the_best_of_the_zoo_is_chosen_on_the_training_networks(options: Options) -> None:
    problem = problem_of(options)
    scores, refused = zoo = problem.zoo_scores()
    found = problem.full_resolution({}).ranking_quality(parse_expression("sum(width)"), zoo)
    assert refused == {}
    assert found.zoo.compared == ["snip", "dss++"]
    assert set(found.zoo.best) == {"kendall", "partial_tau"}
    train = problem.parts["train"]
    for figure, name in found.zoo.best.items():
        evaluation_set = problem.evaluation_set(train.tolist())
        values = {
            own: getattr(evaluation_set.mean({d: v[train] for d, v in by_dataset.items()}), figure)
            for own, by_dataset in scores.items()
        }
        assert name == max(values, key=lambda own: values[own][0])
        assert getattr(found.means[name].train, figure) == values[name][0]
    again = problem.zoo_scores().scores  # of the cache
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
    alone = problem_of({**options, "cache": str(tmp_path / "alone")}).zoo_scores()
    monkeypatch.setattr(SpaceNetwork, "build", counted)
    problem = problem_of({**options, "cache": str(tmp_path / "together")})
    full, tree = problem.full_resolution({}), parse_expression("sum(mean(sqrt(all.grad)))")
    found = Individual(tree, jcm=-1.0)
    assert choose_at_full_resolution([full], problem.config, found, [found], silent) == tree
    zoo = problem.zoo_scores()
    full.ranking_quality(tree, zoo)
    networks = {network.identity for network in problem.networks()}
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
    alone = problem_of({**given, "cache": str(tmp_path / "alone")})
    without = problem_of({**given, "zoo": ("none",), "cache": str(tmp_path / "none")})
    problem = problem_of({**given, "cache": str(tmp_path / "together")})
    tree = parse_expression("sum(mean(sqrt(abs(mlp.grad))))")

    def values(own: SpaceProblem) -> Any:
        needs = EvolveTask(EvolveConfig(**given)).needs()
        collected = own.collect(needs, own.parts["train"], memory=2**28)
        return TreeEvaluator(collected).evaluate([tree]).values

    expected = values(without)
    zoo = alone.zoo_scores().scores
    _ = problem._published.measure  # builds a network to know which proxies refuse these inputs
    monkeypatch.setattr(SpaceNetwork, "build", counted)
    np.testing.assert_array_equal(values(problem), expected)
    train = [problem.networks()[n].identity for n in problem.parts["train"]]
    assert built == Counter(train)
    found = problem.zoo_scores().scores
    assert built == Counter(network.identity for network in problem.networks())
    for name, own in zoo.items():
        for dataset, scores in own.items():
            assert np.isfinite(scores).all()
            np.testing.assert_array_equal(found[name][dataset], scores)


def test_a_proxy_that_takes_other_inputs_is_left_out(options: Options) -> None:
    given = {**options, "batch_size": 1, "zoo": ("snip", "zico")}
    zoo = problem_of(given).zoo_scores()
    assert list(zoo.scores) == ["snip"]
    assert "must have at least 2, but has 1" in zoo.refused["zico"]


def test_a_changed_function_is_measured_again(
    options: Options, written: Callable[[str, str], ModuleType]
) -> None:
    def value(text: str) -> float:
        function = written("own", f"def own(passes): return {text}\n").own
        with PROXIES.trial("own", function_proxy("own", "ours", "1")(function)):
            zoo = problem_of({**options, "zoo": ("own",)}).zoo_scores()
        return float(next(iter(zoo.scores["own"].values()))[0])

    assert (value("1.0"), value("2.0"), value("1.0")) == (1, 2, 1)


@pytest.mark.parametrize(
    ("expression", "alone"),
    [
        ("sum(width)", True),
        ("sum(sum(sign(square(all.weight))))", True),  # counts the weights
        ("sum(frobenius_norm(all.weight))", True),  # follows the number of weights
        ("sum(mean(all.weight))", False),
        ("sum(sum(abs(mul(all.weight, all.grad))))", False),
        ("add(rank(sum(width)), rank(sum(mean(all.weight))))", False),
    ],
)
def test_another_seed_reveals_functions_of_the_choices_alone(
    options: Options, expression: str, alone: bool
) -> None:
    tree = parse_expression(expression)
    networks = problem_of(options).full_resolution({})
    share = networks.ranking_quality(tree, ZooScores({}, {})).seed_share
    assert share is not None
    assert (share < 0.01) == alone
    assert (share == 0.0) == (not statistics(tree) or "sign" in expression)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"objective": "size"}, r"unknown objective 'size'.*choose from jcm, size-adjusted, both"),
        ({"ties": "half"}, r"unknown ties 'half'.*choose from unordered, tau-b"),
        ({"zoo": ("snpi",)}, r"unknown proxy 'snpi' \(did you mean snip\?\)"),
    ],
)
def test_wrong_choices(options: Options, changed: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvolveTask(EvolveConfig(**{**options, **changed}))


@pytest.mark.parametrize("objective", ["size-adjusted", "both"])
def test_an_objective_of_size_needs_pairs_near_in_size(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.json").write_text(json.dumps(table(12)))
    found = run("evolve", "--benchmark", "few.json", "--objective", objective)
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert f"the objective {objective} needs 30 pairs of networks" in found.err
    assert not Path("runs").exists()
