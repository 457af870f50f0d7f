"""Proxies of any kind, by name: expressions, functions and counts, measured network by network."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.evaluator import Engine
from autoprox.errors import ConfigError, nearest
from autoprox.language import Statistic, require_network, statistics
from autoprox.parallel.crew import Crew
from autoprox.scoring.correlations import Floats
from autoprox.scoring.resampling import plain
from autoprox.searchspaces import TransformerNetwork
from autoprox.statistics.collector import Capture, Measured, Passes, Setting, collect
from autoprox.statistics.networks import SpaceNetwork, UntrainedNetwork
from autoprox.statistics.sources import Do, Needs, StreamedMatrices, attempt
from autoprox.zoo.expressions import PROXIES
from autoprox.zoo.functions import FUNCTION_PROXIES, measure_all
from autoprox.zoo.functions import measure_passes as measures
from autoprox.zoo.functions.measure_passes import MeasureError, captures
from autoprox.zoo.proxy_loading import resolve_proxy

COUNTS = ("params", "flops")
Values = dict[str, dict[str, float]]  # by dataset and name
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class Proxies:
    """The expressions, functions and counts of these names, and how they are measured."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.trees = {
            name: require_network(resolve_proxy(name).tree)
            for name in names
            if name not in COUNTS and name not in FUNCTION_PROXIES
        }
        self.functions = [name for name in names if name in FUNCTION_PROXIES]
        self.terms = list(dict.fromkeys(t for tree in self.trees.values() for t in terms_of(tree)))

    def measured(
        self,
        networks: Sequence[SpaceNetwork],
        setting: Setting,
        seed: int,
        crew: Crew,
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        """Take the values of each network as soon as they are known.

        They are those of the functions, and of the terms of the expressions.
        """
        last = time.monotonic()

        def timed(found: dict[str, Any]) -> None:
            nonlocal last
            now = time.monotonic()
            take({**found, "seconds": round(now - last, 3)})
            last = now

        crew.each(Proxies.of_network, networks, timed, self, setting, seed)

    def of_network(self, setting: Setting, seed: int, network: SpaceNetwork) -> dict[str, Any]:
        """The values of one network on each dataset, or why it failed."""
        _, line = self.along(setting, seed, setting, network, {}, lambda dataset, measured: None)
        return line

    def along(
        self,
        setting: Setting,
        seed: int,
        other: Setting,
        network: SpaceNetwork,
        needs: Needs,
        do: Do,
    ) -> tuple[str | None, dict[str, Any]]:
        """Measure a network's values, and in the same passes what `other` is to measure.

        Gives why the passes failed, if they did, and what `of_network` does.
        """
        found: Values = {dataset: {} for dataset in setting.batches}
        failures: list[str] = []
        names = list(map(str, self.terms))

        def functions(dataset: str, built: TransformerNetwork, passes: Passes) -> None:
            known = _known(setting, dataset, found)
            left = [name for name in self.functions if name not in known]
            found[dataset] |= known
            if not failures:
                batch = setting.batches[dataset]
                reason = attempt(
                    lambda: found[dataset].update(measure_all(built, batch, left, seed, passes))
                )
                failures.extend([reason] if reason else [])

        read = captures({need for name in self.functions for need in FUNCTION_PROXIES[name].needs})
        together = _Together(
            setting.batches, setting.thin, setting.device,
            other=other, needs=needs, do=do, captures=read, functions=functions,
        )  # fmt: skip
        # A proxy is ranked on the networks for which it has a value, however few.
        source = StreamedMatrices(together, [network], max_failed=1.0)
        if any(map(statistics, self.terms)):
            values = Engine(source).evaluate(self.terms).values[..., 0]
            failure = source.failures.get(0)
        else:
            failure = attempt(lambda: [None for _ in together.measure(network, {})])
            values = Engine(source).evaluate(self.terms).values[..., 0]
        for dataset, own in zip(setting.batches, values.T.tolist(), strict=True):
            found[dataset] = {**dict(zip(names, own, strict=True)), **found[dataset]}
        line = {
            "failure": failure or next(iter(failures), None),
            "values": {d: {k: plain(v) for k, v in o.items()} for d, o in found.items()},
        }
        return failure, line

    def refused(self, network: SpaceNetwork, setting: Setting, seed: int) -> dict[str, str]:
        """The functions that don't take these inputs, such as a batch of one, and why."""
        found: dict[str, str] = {}
        prepare = network.build(setting.device) if self.functions else None
        seen: list[torch.Tensor] = []
        for batch in setting.batches.values():
            if prepare is None or any(torch.equal(batch.inputs, own) for own in seen):
                continue
            seen.append(batch.inputs)
            passes = measures.MeasurePasses(prepare(batch.classes), batch, seed)
            for name in self.functions:
                try:
                    FUNCTION_PROXIES[name].function(passes)
                except MeasureError as error:
                    found[name] = str(error)
        return found

    def scores(self, name: str, dataset: str, records: Sequence[Mapping[str, Any]]) -> Floats:
        """[records] of a proxy that isn't a count; nan where it has no value.

        `rank` compares the networks with a value.
        """
        tree = self.trees.get(name)
        columns = [name] if tree is None else list(map(str, terms_of(tree)))
        known = [record["values"].get(dataset, {}) for record in records]
        values = np.array([[own.get(c) for own in known] for c in columns], dtype=np.float64)
        if tree is None:
            return np.asarray(values[0])
        scores = np.full(len(records), np.nan)
        valid = np.isfinite(values).all(axis=0)
        terms = dict(zip(terms_of(tree), values[:, valid], strict=True))
        scores[valid] = compare(tree, terms)
        return scores


@dataclass(frozen=True, kw_only=True)
class _Together(Setting):
    """Measures for another setting too, and runs functions, in the same passes."""

    other: Setting
    needs: Needs
    do: Do
    captures: Collection[Capture]
    functions: Callable[[str, TransformerNetwork, Passes], None]

    def measure(
        self, network: UntrainedNetwork, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, Measured]]:
        """What is needed here of each dataset, after all else was done with its passes."""
        prepare = network.build(self.device)
        every = {d: {*needs.get(d, ()), *self.needs.get(d, ())} for d in self.batches}
        passes = Passes(chain(*every.values()), self.captures)
        for dataset, batch in self.batches.items():
            built = prepare(batch.classes)
            passes.plan(every[dataset], self.captures)
            collected = partial(collect, built, batch, seed=network.seed, passes=passes)
            if others := self.needs.get(dataset):
                self.do(dataset, collected(others, thin=self.other.thin))
            if own := needs.get(dataset):
                yield dataset, collected(own, thin=self.thin)
            self.functions(dataset, cast(TransformerNetwork, built), passes)


def all_proxies() -> tuple[str, ...]:
    """The whole zoo, and the counts that it is compared with."""
    return (*COUNTS, *PROXIES)


def named_proxies(given: Sequence[str]) -> tuple[str, ...]:
    """The proxies that are meant, each once; `all` is the whole zoo."""
    known = all_proxies()
    names = dict.fromkeys(n for name in given for n in (known if name == "all" else (name,)))
    for name in names:
        is_word = WORD.fullmatch(name) and not Path(name).exists()
        if not name or (is_word and name not in known):
            raise ConfigError(f"unknown proxy {name!r}{nearest(name, known)}")
    return tuple(names)


def _known(
    setting: Setting, dataset: str, found: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """The measures that neither head nor labels matter to, from a dataset with the same inputs."""
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
