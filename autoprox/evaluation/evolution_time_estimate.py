"""An estimate of the time of an evolution, from a few of its networks and typical formulas."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.fitness_evaluator import MeasuredNetworks
from autoprox.evaluation.full_resolution_choice import SEEDED_NETWORKS
from autoprox.evaluation.power_law_evaluator import (
    PowerLawEvaluator,
    adjustments,
    reseeded_indices,
)
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evaluation.time_estimate import (
    SHARE_OF_NETWORKS,
    TimeEstimate,
    evenly_spaced_networks,
    formula_seconds,
)
from autoprox.evolution.power_law import PowerLawFit
from autoprox.evolution.term_archive import BAG_SHARE, BAGS, most_terms
from autoprox.files.folder_checks import free_bytes
from autoprox.language import EVERY_STATISTIC, Statistic, Tree, parse_expression
from autoprox.language.grammar import Grammar
from autoprox.parallel.threads import run_threads, single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.scoring.baselines import REGRESSIONS, network_sizes
from autoprox.scoring.correlations import Indices
from autoprox.scoring.fitness_correlations import fitness_taus
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.matrix_sources import UncachedMatrices, measure_statistics
from autoprox.statistics.untrained_networks import SpaceNetwork

WARM_UP = 1.0  # seconds for which each worker measures networks
FORMULA_SHARE = 0.85  # of the time with all statistics: published proxies and one formula
FIRST_NETWORK = 1.25  # time of a thread's first network, relative to the next ones
FORMULAS = 21  # typical formulas that are timed
TYPICAL = ("sum(effective_rank({}))", "sum(l1_norm(gelu({})))", "sum(std(exp(min_max({}))))")
EVOLVED = 0.9  # time of an evolved formula, relative to a typical one
REFITTED = 12  # typical formulas that take as long as the terms of a committee
COMPARED = 3  # the formula and the two best published proxies


class EvolutionEstimate:
    """The time of each stage of an evolution on one space."""

    def __init__(
        self, problem: SpaceProblem, grammar: Grammar, needs: set[Statistic], workers: int
    ) -> None:
        """Take the statistics that formulas can read, and the size of the worker pool."""
        self._problem, self._grammar, self._needs, self._pool = problem, grammar, needs, workers
        self._config = problem.config

    def total(self) -> TimeEstimate:
        """Estimate all stages; the networks are measured in a temporary folder."""
        problem, workers = self._problem, self._config.workers
        train, count = problem.parts["train"], len(problem.benchmark.architectures)
        share = workers / self._pool  # of a cluster's work, which does it as fast
        networks = self._by_flops(train)
        with TemporaryDirectory() as folder, single_torch_thread():
            warm = self._seconds_per_network(Path(folder, "first"), networks[:workers])
            rounds = max(1, min(int(WARM_UP / warm), len(train) // SHARE_OF_NETWORKS // workers))
            number = workers * rounds
            sample = evenly_spaced_networks(networks, number)
            first = FIRST_NETWORK if number == workers else 1.0
            each = share * self._seconds_per_network(Path(folder), sample) / first
            size = sum(path.stat().st_size for path in Path(folder).glob("??/*")) / number
            stages = {
                "collect": (len(train) + self._reseeded) * each,
                "evolve": self._evolution_seconds(sample, Path(folder)),
                "measure": (count - len(train)) * FORMULA_SHARE * each
                + (len(train) + SEEDED_NETWORKS) * share * self._formula_seconds(sample)
                + count * share * self._terms_seconds(sample)
                + self._comparison_seconds(),
            }
        return TimeEstimate(
            networks=len(train),
            datasets=len(problem.batches),
            seconds=sum(stages.values()),
            cache=round(len(train) * size),
            free=free_bytes(problem.cache),
            stages=stages,
        )

    def _by_flops(self, part: Indices) -> list[SpaceNetwork]:
        """Return the networks of a part in the order of their FLOPs."""
        problem = self._problem
        archs, networks = problem.benchmark.architectures, problem.networks()
        order = sorted(part.tolist(), key=lambda n: problem.space.flops(archs[n], 1))
        return [networks[n] for n in order]

    def _seconds_per_network(self, folder: Path, networks: Sequence[SpaceNetwork]) -> float:
        """Measure some networks, published proxies included."""
        source, zoo = self._source(networks, folder), self._problem.published_in(folder / "zoo")
        started = time.monotonic()
        source.collect(extra=zoo)
        return (time.monotonic() - started) / len(networks)

    def _formula_seconds(self, networks: Sequence[SpaceNetwork]) -> float:
        """Measure the gradients of a few networks at full resolution."""
        setting, gradients = self._problem.setting(stride=1), {EVERY_STATISTIC["mlp.grad"]}
        needs = dict.fromkeys(self._problem.batches, gradients)

        def measure(network: SpaceNetwork) -> None:
            measure_statistics(setting, network, needs, lambda dataset, measured: None)

        few = networks[: self._config.workers]
        started = time.monotonic()
        run_threads(self._config.workers, [partial(measure, network) for network in few])
        return (time.monotonic() - started) / len(few)

    def _terms_seconds(self, networks: Sequence[SpaceNetwork]) -> float:
        """Estimate the time for a network of a power law's terms at full resolution."""
        if self._config.form == "tree":
            return 0.0
        setting, trees = self._problem.setting(stride=1), self._typical_trees()
        few = evenly_spaced_networks(networks, self._config.workers)
        source = UncachedMatrices(setting, few, WorkerPool(self._config.workers))
        started = time.monotonic()
        TreeEvaluator(source).evaluate(trees)
        return (time.monotonic() - started) / len(few) * REFITTED / len(trees)

    def _comparison_seconds(self) -> float:
        """Estimate the time of the intervals of all proxies that are compared."""
        counts = network_sizes(self._problem.benchmark)
        started = time.monotonic()
        for part in self._problem.parts.values():
            evaluation_set = self._problem.evaluation_set(part.tolist())
            evaluation_set.table({d: scores[part] for d, scores in counts["params"].items()})
        compared = len(counts) + len(REGRESSIONS) + COMPARED + len(self._config.zoo)
        return (time.monotonic() - started) * compared

    def _source(self, networks: Sequence[SpaceNetwork], folder: Path) -> CachedMatrices:
        pool = WorkerPool(self._config.workers)
        return CachedMatrices(
            self._problem.setting(), networks, self._needs, folder=folder, pool=pool
        )

    def _evolution_seconds(self, sample: Sequence[SpaceNetwork], folder: Path) -> float:
        """Time typical formulas on copies of the sample, and their taus."""
        config, train = self._config, self._problem.parts["train"]
        trees = self._typical_trees()
        truth = self._training_networks.truth
        scores = np.random.default_rng(0).random(
            (len(trees), len(self._problem.batches), len(train))
        )
        started = time.monotonic()
        fitness_taus([scores], [truth], config.ties)
        taken = (time.monotonic() - started) / len(trees)
        taken += EVOLVED * formula_seconds(
            trees,
            lambda count: self._source(list(islice(cycle(sample), count)), folder),
            len(train) + self._reseeded,
        )
        drawn = (2 if config.form == "tree" else 1) * config.population
        formulas = drawn + config.iterations * config.children
        formulas = min(formulas, config.evaluations or formulas)
        return taken * formulas + self._selection_seconds(formulas)

    @property
    def _training_networks(self) -> MeasuredNetworks:
        train = self._problem.parts["train"].tolist()
        return MeasuredNetworks(self._problem.evaluation_set(train), [])

    @property
    def _reseeded(self) -> int:
        """How many training networks are measured with another seed too."""
        train = self._problem.parts["train"]
        return 0 if self._config.form == "tree" else len(reseeded_indices(len(train), spaces=1))

    def _selection_seconds(self, terms: int) -> float:
        """Time a selection from half of all terms, as there are on average, for all iterations."""
        config = self._config
        if config.form == "tree":
            return 0.0
        labelled = PowerLawEvaluator(config, [self._training_networks], []).labelled
        rows = np.arange(len(labelled.truth))
        shape = min(terms // 2 + 1, most_terms(labelled)), len(rows)
        logs = np.random.default_rng(0).random(shape)
        started = time.monotonic()
        PowerLawFit(logs, labelled, rows).forward_selection(config.terms)
        taken = time.monotonic() - started
        return taken * (1 + BAG_SHARE * BAGS) * len(adjustments(config)) * config.iterations

    def _typical_trees(self) -> list[Tree]:
        """Return formulas of the operations that take most of the time, over all statistics."""
        read = [name for name in self._grammar.terminals if name in EVERY_STATISTIC]
        pairs = islice(zip(cycle(read), cycle(TYPICAL), strict=False), FORMULAS)
        return [parse_expression(template.format(name)) for name, template in pairs]
