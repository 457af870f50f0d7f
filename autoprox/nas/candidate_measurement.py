"""Measures the terms of a proxy for candidates of a search, which are compared only at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import numpy as np

from autoprox.engine.per_network_terms import combine_terms, proxy_terms
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.language import Statistic, Tree, canonical, statistics
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.size_limits import ArchitectureSizes
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import (
    MatrixSource,
    UncachedMatrices,
    catch_network_failure,
)
from autoprox.statistics.sliced_networks import (
    LargestNetwork,
    SlicedMatrices,
    require_sliceable_space,
)
from autoprox.statistics.untrained_networks import NetworkStructure, SpaceNetwork
from autoprox.zoo.expression_proxies import ProxyError
from autoprox.zoo.functions import FUNCTION_PROXIES, measure_function_proxies
from autoprox.zoo.predictor import Predictor
from autoprox.zoo.proxy_loading import resolve_proxy

SLICED_BATCH = 500  # candidates that are evaluated together


@dataclass(frozen=True, slots=True)
class MeasurementOutcome:
    """The values of a proxy's terms for a network and for each of its blocks, or its failure."""

    terms: tuple[float, ...] = ()
    blocks: tuple[tuple[float, ...], ...] = ()  # [terms][blocks], if they were asked for
    failure: str | None = None


class SearchProxy:
    """A proxy as a search uses it: measured network by network, and compared at the end.

    With `by_block`, each term is also measured for every block: its last reduction, over the
    layers, then runs over the layers of the block.
    """

    def __init__(self, tree: Tree, by_block: bool = False) -> None:
        self.tree = canonical(tree)
        self.terms = proxy_terms(tree)
        self.by_block = by_block

    @property
    def compares(self) -> bool:
        """Whether a score depends on the other candidates."""
        return self.terms != (self.tree,)

    @cached_property
    def needs(self) -> frozenset[Statistic]:
        """The statistics of single domains that the proxy reads."""
        return frozenset(part for statistic in statistics(self.tree) for part in statistic.parts)

    def outcome(
        self,
        space: SearchSpace,
        setting: MeasurementSetting,
        architecture: Architecture,
        seed: int,
        shared: bool = False,
    ) -> MeasurementOutcome:
        """Measure one network; nothing is built for a proxy of structure alone."""
        network = (SpaceNetwork if self.needs else _UnbuiltNetwork)(
            space, architecture, seed, shared
        )
        [outcome] = self.outcomes(UncachedMatrices(setting, [network], max_failed=1.0))
        return outcome

    def outcomes(self, source: MatrixSource) -> list[MeasurementOutcome]:
        """Evaluate the terms on each network of a source."""
        found = TreeEvaluator(source, self.by_block).block_values(self.terms)
        outcomes = []
        for network in range(len(source.networks)):
            if network in source.failures:
                outcomes.append(MeasurementOutcome(failure=source.failures[network]))
            elif not np.isfinite(found[network][:, 0]).all():
                outcomes.append(MeasurementOutcome(failure="not finite"))
            else:
                terms, blocks = found[network][:, 0], found[network][:, 1:]
                # A block alone may overflow, which JSON can't express.
                blocks = np.nan_to_num(blocks, nan=-np.finfo(float).max)
                outcomes.append(
                    MeasurementOutcome(tuple(terms.tolist()), tuple(map(tuple, blocks.tolist())))
                )
        return outcomes

    def scores(self, values: Floats, architectures: Sequence[Architecture] = ()) -> Floats:
        """Compare candidates, or blocks, by their terms [n, terms]; returns scores [n]."""
        return combine_terms(self.tree, dict(zip(self.terms, values.T, strict=True)))


class PredictorSearchProxy(SearchProxy):
    """The predictor of a run: the terms of its expression, from which it predicts ranks."""

    def __init__(self, predictor: Predictor, dataset: str) -> None:
        super().__init__(predictor.tree)
        self.predictor, self._dataset = predictor, dataset

    @property
    def compares(self) -> bool:
        """True, so that all candidates are predicted together, which takes less time."""
        return True

    def scores(self, values: Floats, architectures: Sequence[Architecture] = ()) -> Floats:
        """Predict the ranks of candidates [n] by their terms [n, terms]."""
        scores = super().scores(values)
        return self.predictor.predict(architectures, self._dataset, scores)


class NamedSearchProxy:
    """A function of the zoo or a count of sizes, which has one term: its value for a network."""

    compares = by_block = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.terms = (name,)

    def outcome(
        self,
        space: SearchSpace,
        setting: MeasurementSetting,
        architecture: Architecture,
        seed: int,
        shared: bool = False,
    ) -> MeasurementOutcome:
        """Measure one network, or count its parameters or FLOPs."""
        [batch] = setting.batches.values()
        if self.name in ArchitectureSizes._fields:
            count = getattr(space, self.name)(architecture, batch.classes)
            return MeasurementOutcome((float(count),))
        values: dict[str, float] = {}

        def measure() -> None:
            prepare = SpaceNetwork(space, architecture, seed, shared).build(setting.device)
            network = prepare(batch.classes)
            values.update(measure_function_proxies(network, batch, [self.name], seed))

        if failure := catch_network_failure(measure):
            return MeasurementOutcome(failure=failure)
        value = values[self.name]
        return (
            MeasurementOutcome((value,))
            if isfinite(value)
            else MeasurementOutcome(failure="not finite")
        )

    def scores(self, values: Floats, architectures: Sequence[Architecture] = ()) -> Floats:
        """Return the scores [n] of candidates by their terms [n, 1]."""
        return np.asarray(values[:, 0])


def load_search_proxy(
    source: str, dataset: str = "", by_block: bool = False
) -> SearchProxy | NamedSearchProxy:
    """Return a search's proxy: an expression, a predictor, a function of the zoo, or a size."""
    if source not in ArchitectureSizes._fields and source not in FUNCTION_PROXIES:
        loaded = resolve_proxy(source)
        if not isinstance(loaded.proxy, Predictor):
            return SearchProxy(loaded.tree, by_block)
        if not by_block:
            return PredictorSearchProxy(loaded.proxy, dataset)
    if by_block:
        rule = "a strategy that scores blocks must have an expression as its proxy"
        raise ProxyError(f"{rule}, but {source} is a function of whole networks")
    return NamedSearchProxy(source)


@dataclass(frozen=True)
class _CandidateMeasurement:
    proxy: SearchProxy | NamedSearchProxy
    space: SearchSpace
    setting: MeasurementSetting
    seed: int = 0
    pool: WorkerPool = SINGLE_WORKER


@dataclass(frozen=True)
class OwnWeightScorer(_CandidateMeasurement):
    """Measures each candidate's own network, built and initialised for it; some may fail."""

    shared: bool = False  # whether weights are slices of the draws of all networks

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[MeasurementOutcome], None]
    ) -> None:
        """Record the outcome of each, in their order, as soon as it is known."""
        alone = replace(self, pool=SINGLE_WORKER)  # a worker needs no pool
        self.pool.each(OwnWeightScorer.outcome, architectures, record, alone)

    def outcome(self, architecture: Architecture) -> MeasurementOutcome:
        """Measure one candidate."""
        return self.proxy.outcome(self.space, self.setting, architecture, self.seed, self.shared)


class _UnbuiltNetwork(SpaceNetwork):
    def structure(self) -> NetworkStructure:
        return NetworkStructure(blocks=self.space.blocks(self.architecture))


@dataclass(frozen=True)
class SlicedWeightScorer(_CandidateMeasurement):
    """Measures candidates as slices of the largest network of the space."""

    proxy: SearchProxy

    def __post_init__(self) -> None:
        require_sliceable_space(self.space)

    @cached_property
    def _largest(self) -> LargestNetwork:
        return LargestNetwork(self.space, self.setting, self.proxy.needs, self.seed)

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[MeasurementOutcome], None]
    ) -> None:
        """Record the outcome of each, in their order."""
        for start in range(0, len(architectures), SLICED_BATCH):
            batch = architectures[start : start + SLICED_BATCH]
            for outcome in self.proxy.outcomes(SlicedMatrices(self._largest, batch, self.pool)):
                record(outcome)
