"""Proxies of any kind, by name: expressions, functions and counts, measured network by network."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.evaluator import Engine
from autoprox.errors import ConfigError, nearest
from autoprox.language import require_network
from autoprox.parallel.crew import Crew
from autoprox.scoring.correlations import Floats
from autoprox.scoring.resampling import plain
from autoprox.searchspaces import TransformerNetwork
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import SpaceNetwork
from autoprox.statistics.sources import StreamedMatrices, attempt
from autoprox.zoo.expressions import PROXIES
from autoprox.zoo.functions import MEASURES, measure_all
from autoprox.zoo.functions.passes import MeasureError
from autoprox.zoo.loading import load

COUNTS = ("params", "flops")
Values = dict[str, dict[str, float]]  # by dataset and name
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class Proxies:
    """The expressions, functions and counts of these names, and how they are measured."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.trees = {
            name: require_network(load(name).tree)
            for name in names
            if name not in COUNTS and name not in MEASURES
        }
        self.functions = [name for name in names if name in MEASURES]
        self.terms = list(dict.fromkeys(t for tree in self.trees.values() for t in terms_of(tree)))

    def measured(
        self,
        networks: Sequence[SpaceNetwork],
        setting: Setting,
        seed: int,
        crew: Crew,
        take: Callable[[dict[str, Any]], None],
        engine: Engine | None = None,
    ) -> None:
        """Take the values of each network as soon as they are known.

        They are those of the functions, and of the terms of the expressions; the latter are asked
        of an engine of these networks, if there is one.
        """
        last = time.monotonic()

        def timed(found: dict[str, Any]) -> None:
            nonlocal last
            now = time.monotonic()
            take({**found, "seconds": round(now - last, 3)})
            last = now

        if engine is None:
            crew.each(Proxies.of_network, networks, timed, self, setting, seed)
            return
        values, lost = engine.evaluate(self.terms).values, engine.source.failures
        items = [(own, values[..., i], lost.get(i)) for i, own in enumerate(networks)]
        crew.each(Proxies._completed, items, timed, self, setting, seed)

    def of_network(self, setting: Setting, seed: int, network: SpaceNetwork) -> dict[str, Any]:
        """The values of one network on each dataset, or why it failed."""
        # A proxy is ranked on the networks for which it has a value, however few.
        source = StreamedMatrices(setting, [network], max_failed=1.0)
        values = Engine(source).evaluate(self.terms).values[..., 0]
        return self._completed(setting, seed, (network, values, source.failures.get(0)))

    def _completed(
        self, setting: Setting, seed: int, item: tuple[SpaceNetwork, Floats, str | None]
    ) -> dict[str, Any]:
        """The values of the terms, [terms, datasets], and those of the functions."""
        network, values, failure = item
        names = list(map(str, self.terms))
        found: Values = {
            dataset: dict(zip(names, own, strict=True))
            for dataset, own in zip(setting.batches, values.T.tolist(), strict=True)
        }
        if self.functions and failure is None:
            failure = attempt(lambda: self._run_functions(setting, network, seed, found))
        return {
            "failure": failure,
            "values": {d: {k: plain(v) for k, v in o.items()} for d, o in found.items()},
        }

    def _run_functions(
        self, setting: Setting, network: SpaceNetwork, seed: int, found: Values
    ) -> None:
        """Add what isn't expressions, with each dataset's head."""
        prepare = network.build(setting.device)
        for dataset, batch in setting.batches.items():
            built = prepare(batch.classes)
            known = _known(setting, dataset, found)
            names = [name for name in self.functions if name not in known]
            found[dataset] |= known | measure_all(built, batch, names, seed)

    def refused(self, network: SpaceNetwork, setting: Setting, seed: int) -> dict[str, str]:
        """The functions that don't take these inputs, such as a batch of one, and why."""
        found: dict[str, str] = {}
        prepare = network.build(setting.device) if self.functions else None
        for name in self.functions:
            try:
                for batch in setting.batches.values():
                    built = cast(TransformerNetwork, prepare and prepare(batch.classes))
                    measure_all(built, batch, [name], seed)
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
                if name in MEASURES and MEASURES[name].trunk
            }
    return {}
