"""Proxies of any kind measured network by network: expressions, functions and counts."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import torch

from autoprox.engine.per_network_terms import combine_terms, proxy_terms
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import ConfigError, nearest
from autoprox.files.json_documents import Finite, JSONDocument
from autoprox.language import Statistic, require_complete_proxy, statistics
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.scoring.bootstrap import finite_or_none
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, TransformerNetwork
from autoprox.statistics.collector import (
    LayerCapture,
    MeasuredMatrices,
    MeasurementSetting,
    SharedStatisticPasses,
    collect_statistics,
)
from autoprox.statistics.matrix_sources import (
    Needs,
    TakeMeasured,
    UncachedMatrices,
    catch_network_failure,
)
from autoprox.statistics.untrained_networks import SpaceNetwork, UntrainedNetwork
from autoprox.zoo.expression_proxies import PROXIES
from autoprox.zoo.functions import (
    FUNCTION_PROXIES,
    RANK_COMBINATIONS,
    measure_function_proxies,
)
from autoprox.zoo.functions import shared_network_passes as measures
from autoprox.zoo.functions.shared_network_passes import FunctionProxyError, proxy_captures
from autoprox.zoo.predictor import Predictor
from autoprox.zoo.proxy_loading import resolve_proxy

SIZE_PROXIES = ("params", "flops")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class NetworkValues(JSONDocument):
    """The values of proxies and of their terms on one network, by dataset and name."""

    failure: str | None
    values: dict[str, dict[str, Finite | None]]
    seconds: Finite = 0.0


class MeasuredProxies:
    """Expressions, functions, their combinations and counts by name, and how they are measured."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.combinations = {n: RANK_COMBINATIONS[n] for n in names if n in RANK_COMBINATIONS}
        others = {*SIZE_PROXIES, *FUNCTION_PROXIES, *self.combinations}
        loaded = {name: resolve_proxy(name) for name in names if name not in others}
        self.predictors = {
            name: own.proxy for name, own in loaded.items() if isinstance(own.proxy, Predictor)
        }
        self.trees = {
            name: self.predictors[name].tree
            if name in self.predictors
            else require_complete_proxy(own.tree)
            for name, own in loaded.items()
        }
        parts = {name: own.function_names() for name, own in self.combinations.items()}
        functions = (own for name in names for own in parts.get(name, (name,)))
        self.functions = [name for name in dict.fromkeys(functions) if name in FUNCTION_PROXIES]
        self.terms = list(
            dict.fromkeys(t for tree in self.trees.values() for t in proxy_terms(tree))
        )

    def measured(
        self,
        networks: Sequence[SpaceNetwork],
        setting: MeasurementSetting,
        seed: int,
        pool: WorkerPool,
        take: Callable[[NetworkValues], None],
    ) -> None:
        """Pass on each network's values as soon as they are known, in the networks' order.

        They are the values of the functions, and of the terms of the expressions.
        """
        last = time.monotonic()

        def timed(found: NetworkValues) -> None:
            nonlocal last
            now = time.monotonic()
            take(found.model_copy(update={"seconds": round(now - last, 3)}))
            last = now

        pool.each(MeasuredProxies.of_network, networks, timed, self, setting, seed)

    def of_network(
        self, setting: MeasurementSetting, seed: int, network: SpaceNetwork
    ) -> NetworkValues:
        """Measure the values of one network on each dataset."""
        _, found = self.measure_with(
            setting, seed, setting, network, {}, lambda dataset, measured: None
        )
        return found

    def measure_with(
        self,
        setting: MeasurementSetting,
        seed: int,
        other: MeasurementSetting,
        network: SpaceNetwork,
        needs: Needs,
        do: TakeMeasured,
    ) -> tuple[str | None, NetworkValues]:
        """Measure a network's values, and in the same passes what `other` needs.

        Also return why the passes failed, if they did.
        """
        found: dict[str, dict[str, float]] = {dataset: {} for dataset in setting.batches}
        failures: list[str] = []
        names = list(map(str, self.terms))

        def functions(
            dataset: str, built: TransformerNetwork, passes: SharedStatisticPasses
        ) -> None:
            known = _known(setting, dataset, found)
            left = [name for name in self.functions if name not in known]
            found[dataset] |= known
            if not failures:
                batch = setting.batches[dataset]
                reason = catch_network_failure(
                    lambda: found[dataset].update(
                        measure_function_proxies(built, batch, left, seed, passes)
                    )
                )
                failures.extend([reason] if reason else [])

        read = proxy_captures(
            {need for name in self.functions for need in FUNCTION_PROXIES[name].needs}
        )
        together = _Together(
            setting.batches, setting.stride, setting.device,
            other=other, needs=needs, do=do, captures=read, functions=functions,
        )  # fmt: skip
        # A proxy is ranked on the networks for which it has a value, however few.
        source = UncachedMatrices(together, [network], max_failed=1.0)
        if any(map(statistics, self.terms)):
            values = TreeEvaluator(source).evaluate(self.terms).values[..., 0]
            failure = source.failures.get(0)
        else:
            failure = catch_network_failure(lambda: [None for _ in together.measure(network, {})])
            values = TreeEvaluator(source).evaluate(self.terms).values[..., 0]
        for dataset, own in zip(setting.batches, values.T.tolist(), strict=True):
            found[dataset] = {**dict(zip(names, own, strict=True)), **found[dataset]}
        values_by_name = {
            dataset: {name: finite_or_none(value) for name, value in own.items()}
            for dataset, own in found.items()
        }
        reason = failure or next(iter(failures), None)
        return failure, NetworkValues(failure=reason, values=values_by_name)

    def refused(
        self, network: SpaceNetwork, setting: MeasurementSetting, seed: int
    ) -> dict[str, str]:
        """Return why some proxies can't take these inputs, such as a batch of one."""
        found: dict[str, str] = {}
        prepare = network.build(setting.device) if self.functions else None
        seen: list[torch.Tensor] = []
        for batch in setting.batches.values():
            if prepare is None or any(torch.equal(batch.inputs, own) for own in seen):
                continue
            seen.append(batch.inputs)
            passes = measures.SharedNetworkPasses(prepare(batch.classes), batch, seed)
            for name in self.functions:
                try:
                    FUNCTION_PROXIES[name].function(passes)
                except FunctionProxyError as error:
                    found[name] = str(error)
        for name, combination in self.combinations.items():
            if reasons := [found[part] for part in combination.parts if part in found]:
                found[name] = reasons[0]
        return {name: reason for name, reason in found.items() if name in self.names}

    def scores(
        self,
        name: str,
        known: Sequence[Mapping[str, float | None]],
        architectures: Sequence[Architecture] = (),
        dataset: str = "",
    ) -> Floats:
        """Return the scores [networks] of a proxy that isn't a count, from each network's values.

        Networks without a value have nan; the operation `rank` compares the others. Predictors also
        need the networks' architectures and the dataset.
        """
        tree, combination = self.trees.get(name), self.combinations.get(name)
        terms = () if tree is None else proxy_terms(tree)
        columns = [name] if combination is None else combination.parts
        columns = list(map(str, terms)) or columns
        values = np.array([[own.get(c) for own in known] for c in columns], dtype=np.float64)
        scores = np.full(len(known), np.nan)
        valid = np.isfinite(values).all(axis=0)
        if tree is not None:
            scores[valid] = combine_terms(tree, dict(zip(terms, values[:, valid], strict=True)))
        elif combination is not None:
            scores[valid] = combination.combine(values[:, valid])
        else:
            scores = values[0]
        if name in self.predictors:
            predicted = self.predictors[name].predict(architectures, dataset, scores)
            scores = np.where(np.isfinite(scores), predicted, np.nan)
        return scores


@dataclass(frozen=True, kw_only=True)
class _Together(MeasurementSetting):
    """A setting that also measures for another one, and runs functions, in the same passes."""

    other: MeasurementSetting
    needs: Needs
    do: TakeMeasured
    captures: Collection[LayerCapture]
    functions: Callable[[str, TransformerNetwork, SharedStatisticPasses], None]

    def measure(
        self, network: UntrainedNetwork, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, MeasuredMatrices]]:
        """Yield the statistics of each dataset, after everything else was done with its passes."""
        prepare = network.build(self.device)
        every = {d: {*needs.get(d, ()), *self.needs.get(d, ())} for d in self.batches}
        passes = SharedStatisticPasses(chain(*every.values()), self.captures)
        for dataset, batch in self.batches.items():
            built = prepare(batch.classes)
            passes.plan(every[dataset], self.captures)
            collected = partial(collect_statistics, built, batch, seed=network.seed, passes=passes)
            if others := self.needs.get(dataset):
                self.do(dataset, collected(others, stride=self.other.stride))
            if own := needs.get(dataset):
                yield dataset, collected(own, stride=self.stride)
            self.functions(dataset, cast(TransformerNetwork, built), passes)


def all_proxy_names() -> tuple[str, ...]:
    """Return the names of the whole zoo, and of the counts that it is compared with."""
    return (*SIZE_PROXIES, *PROXIES)


def requested_proxy_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the requested proxies, each once; `all` is the whole zoo."""
    known = all_proxy_names()
    names = dict.fromkeys(n for name in given for n in (known if name == "all" else (name,)))
    for name in names:
        is_word = WORD.fullmatch(name) and not Path(name).exists()
        if not name or (is_word and name not in known):
            raise ConfigError(f"unknown proxy {name!r}{nearest(name, known)}")
    return tuple(names)


def _known(
    setting: MeasurementSetting, dataset: str, found: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return measures independent of head and labels, from a dataset with the same inputs."""
    for other, batch in setting.batches.items():
        if other == dataset:
            break
        if torch.equal(batch.inputs, setting.batches[dataset].inputs):
            return {
                name: value
                for name, value in found[other].items()
                if name in FUNCTION_PROXIES and FUNCTION_PROXIES[name].trunk
            }
    return {}
