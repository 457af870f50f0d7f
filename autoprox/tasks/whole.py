"""All networks of a discovery, whole: on them a formula is chosen, and measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.engine.evaluator import Engine, SourceNetworks
from autoprox.engine.terms import terms_of
from autoprox.evolution import Individual
from autoprox.export import pretty
from autoprox.language import Tree, statistics
from autoprox.progress import Progress, silent
from autoprox.scoring.resampling import plain
from autoprox.scoring.seeds import seed_share
from autoprox.scoring.tables import Judge, Scores, baselines, cross_fitted_ridge, fitted_ridge
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import space_networks
from autoprox.statistics.sources import ExtraExpressions, UncachedMatrices
from autoprox.tasks.base import crew_of
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.trial import Ground, Trial
from autoprox.tasks.zoo import Zoo

HOLDS = 0.005  # how much lower a metric may be on whole matrices than on thinned ones
RIVALS = 10  # formulas that are measured there where it is lower
SEEDED = 12  # networks that are measured with another seed
Parts = Mapping[str, Sequence[int]]


class Whole:
    """A benchmark's networks, measured as they are; those that failed before are left out."""

    def __init__(
        self,
        benchmark: Benchmark,
        config: EvolveConfig,
        parts: Parts,
        settings: Sequence[Setting],
        failed: Mapping[int, str],
        held_out: bool = False,
        along: ExtraExpressions | None = None,
    ) -> None:
        """The settings are those of the seed and of the next one.

        The ridge regression of a space that is held out is fitted to the other folds, for all of
        its networks are the test. What is wanted `along` is measured in the same passes as the
        first formulas.
        """
        self._ridge = cross_fitted_ridge(benchmark) if held_out else None
        self._benchmark, self._config, self._settings = benchmark, config, settings
        self._parts, self._failed = parts, dict(failed)
        source = self._source(benchmark.architectures)
        source.extra = along
        self.engine = Engine(source)

    def _source(self, architectures: Sequence[Any], seed: int = 0) -> UncachedMatrices:
        space, config = get_space(self._benchmark.space), self._config
        networks = space_networks(space, architectures, config.seed + seed)
        return UncachedMatrices(self._settings[seed], networks, crew_of(config))

    def chosen(
        self, found: Individual, front: Sequence[Individual], progress: Progress = silent
    ) -> Tree:
        """See `chosen_whole`."""
        return chosen_whole([self], self._config, found, front, progress)

    def ground(self, trees: Sequence[Tree]) -> Ground:
        """The training networks that don't fail on these trees."""
        self._measure(trees)
        train = [n for n in self._parts["train"] if n not in self._lost()]
        judge = Judge(self._benchmark, train, self._config.seed, self._config.ties)
        return Ground(judge, [SourceNetworks(self.engine, train)])

    def measured(self, tree: Tree, zoo: Zoo) -> dict[str, Any]:
        """What a proxy is worth on both parts of the split, beside the baselines and the zoo.

        Networks that failed before, or fail now, are left out of all figures.
        """
        self._measure([tree])
        failed, datasets = self._lost(), self._benchmark.datasets
        parts = {name: [n for n in own if n not in failed] for name, own in self._parts.items()}
        config = self._config
        judges = {
            name: Judge(self._benchmark, own, config.seed, config.ties)
            for name, own in parts.items()
        }
        scores = {
            name: dict(zip(datasets, self.engine.evaluate([tree], own).values[0], strict=True))
            for name, own in parts.items()
        }
        return {
            "expression": str(tree),
            "formula": pretty(tree),
            **{name: judge.table(scores[name]) for name, judge in judges.items()},
            **self._beside(judges, scores, parts, zoo),
            "budgets": {name: judge.budgets() for name, judge in judges.items()},
            "size": {name: judge.size_check(scores[name]) for name, judge in judges.items()},
            "networks": {name: _each(judge, scores[name]) for name, judge in judges.items()},
            "seed_share": self._seed_share(tree),
            "failed_networks": {str(network): reason for network, reason in failed.items()},
        }

    def _beside(
        self,
        judges: Mapping[str, Judge],
        own: Mapping[str, Scores],
        parts: Parts,
        zoo: Zoo,
    ) -> dict[str, Any]:
        """The proxy's means beside those of the baselines, and of the zoo."""
        best = best_of_zoo(zoo.scores, judges["train"])
        ridge = self._ridge or fitted_ridge(self._benchmark, parts["train"])
        rivals: dict[str, Scores] = {**baselines(self._benchmark), "ridge": ridge, **zoo.scores}

        def of_part(scores: Scores, part: str) -> Scores:
            return {dataset: values[list(parts[part])] for dataset, values in scores.items()}

        scored: dict[str, Mapping[str, Scores]] = {"proxy": own}
        for name, scores in rivals.items():
            scored[name] = {part: of_part(scores, part) for part in parts}
        worths = {
            name: {part: judges[part].mean(scores[part]) for part in parts}
            for name, scores in scored.items()
        }
        return {
            "baselines": {
                name: {part: judges[part].table(scored[name][part]) for part in parts}
                for name in rivals
            },
            "means": {
                name: {part: worth.row() for part, worth in of_parts.items()}
                for name, of_parts in worths.items()
            },
            "comparison": {
                name: worths["proxy"]["test"].less(worths[name]["test"]) for name in rivals
            },
            "zoo": {
                "compared": list(zoo.scores),
                "best": best,
                "refused": zoo.refused,
                "missing": _missing(zoo, [n for own in parts.values() for n in own]),
            },
        }

    def _seed_share(self, tree: Tree) -> float:
        """How much the seed changes the terms of a proxy, relative to their spread."""
        if not statistics(tree):
            return 0.0
        alive = [n for n in range(len(self._benchmark.architectures)) if n not in self._lost()]
        places = np.linspace(0, len(alive) - 1, min(SEEDED, len(alive))).round().astype(int)
        networks = [alive[place] for place in places]
        other = Engine(self._source([self._benchmark.architectures[n] for n in networks], seed=1))
        terms = terms_of(tree)
        values = [self.engine.evaluate(terms, networks).values, other.evaluate(terms).values]
        return seed_share(np.stack(values))

    def _measure(self, trees: Sequence[Tree]) -> None:
        """On all networks, in one pass over them, what wasn't measured before."""
        self.engine.evaluate(trees)

    def _lost(self) -> dict[int, str]:
        return {**self._failed, **self.engine.source.failures}


def _each(judge: Judge, scores: Scores) -> dict[str, Any]:
    """The networks by their numbers, with their parameters, scores and true scores."""
    params = next(iter(judge.sizes["params"].values()))
    return {
        "network": judge.networks,
        "params": params.tolist(),
        "scores": {dataset: list(map(plain, own)) for dataset, own in scores.items()},
        "truth": {dataset: own.tolist() for dataset, own in judge.truth.items()},
    }


def chosen_whole(
    wholes: Sequence[Whole],
    config: EvolveConfig,
    found: Individual,
    front: Sequence[Individual],
    progress: Progress = silent,
) -> Tree:
    """The formula found on thinned matrices, unless it is worth less on whole ones.

    Then it is chosen anew among the fittest of the front, by the training parts.
    """

    def trial(trees: Sequence[Tree]) -> Trial:
        return Trial(config, [whole.ground(trees) for whole in wholes])

    (whole,) = trial([found.tree]).individuals([found.tree])
    pairs = zip(whole.metrics, found.metrics, strict=True)
    if all(now >= before - HOLDS for now, before in pairs):
        return found.tree
    rivals = sorted(front, key=lambda i: i.fitness, reverse=True)[:RIVALS]
    note = f"chosen anew among {len(rivals)}: {whole.metrics[0]:.4f}, {found.tree}"
    progress("measure", 0, 1, note)
    trees = [rival.tree for rival in rivals]
    again = trial(trees)
    valid = [rival for rival in again.individuals(trees) if rival.valid]
    return again.choose(valid).tree if valid else found.tree


def _missing(zoo: Zoo, networks: Sequence[int]) -> dict[str, int]:
    """Count the networks on which a published proxy has no value, if there are any."""
    values = {n: np.array([s[networks] for s in own.values()]) for n, own in zoo.scores.items()}
    counts = {n: int((~np.isfinite(own)).any(axis=0).sum()) for n, own in values.items()}
    return {name: count for name, count in counts.items() if count}


def best_of_zoo(zoo: Mapping[str, Scores], train: Judge) -> dict[str, str]:
    """By its tau on the training networks, and by that given the size; of those with all scores."""
    worths = {
        name: train.mean({dataset: own[train.networks] for dataset, own in scores.items()})
        for name, scores in zoo.items()
    }
    found = {}
    for figure in ("kendall", "given_size"):
        values = {name: getattr(worth, figure)[0] for name, worth in worths.items()}
        if known := {name: value for name, value in values.items() if np.isfinite(value)}:
            found[figure] = max(known, key=lambda name: known[name])
    return found
