"""Published proxies on all networks of a discovery, whole: what the chosen one is compared with."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from autoprox import __version__
from autoprox.benchmarks import Benchmark
from autoprox.engine.evaluator import Engine
from autoprox.files.atomic import to_json, write_json
from autoprox.files.code import code_digest
from autoprox.files.located_json import read_object
from autoprox.language import Tree
from autoprox.primitives import PRIMITIVES
from autoprox.progress import Progress, silent
from autoprox.scoring.tables import Scores
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import space_networks
from autoprox.tasks.base import crew_of
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.proxies import Proxies
from autoprox.zoo.functions import MEASURES


class Zoo(NamedTuple):
    """The scores of published proxies on all networks; which take other inputs, and why."""

    scores: Mapping[str, Scores]
    refused: Mapping[str, str]


class PublishedProxies:
    """Those of a configuration, in a cache once they are measured: other splits have the same."""

    def __init__(
        self, benchmark: Benchmark, config: EvolveConfig, setting: Setting, cache: Path
    ) -> None:
        self._config, self._setting, self._cache = config, setting, cache
        architectures = benchmark.architectures
        self._networks = space_networks(get_space(benchmark.space), architectures, config.seed)

    @cached_property
    def _refused(self) -> dict[str, str]:
        config = self._config
        return Proxies(config.zoo).refused(self._networks[0], self._setting, config.seed)

    @cached_property
    def _proxies(self) -> Proxies:
        return Proxies([name for name in self._config.zoo if name not in self._refused])

    @cached_property
    def _path(self) -> Path:
        proxies, batches = self._proxies, self._setting.batches
        inputs = {dataset: batch.digest for dataset, batch in batches.items()}
        functions = [MEASURES[name].function for name in proxies.functions]
        code = code_digest(*functions, *(own.function for own in PRIMITIVES.values()))
        versions = code, torch.__version__, __version__
        about = [*proxies.names, *map(str, proxies.terms), inputs, *versions]
        key = to_json([about, [network.identity for network in self._networks]])
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    @property
    def terms(self) -> Sequence[Tree]:
        """What of the expressions isn't in the cache: to be measured along with other formulas."""
        return () if self._path.exists() else self._proxies.terms

    def measured(self, progress: Progress = silent, engine: Engine | None = None) -> Zoo:
        """From the cache, if they are there; an engine of the same networks knows the terms."""
        proxies, networks, config = self._proxies, self._networks, self._config
        path = self._path
        if proxies.names and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            lines: list[dict[str, Any]] = []

            def keep(line: dict[str, Any]) -> None:
                lines.append(line)
                progress("zoo", len(lines), len(networks), "")

            crew = crew_of(config)
            proxies.measured(networks, self._setting, config.seed, crew, keep, engine)
            write_json(path, {"lines": lines})
        records = read_object(path)["lines"] if proxies.names else []
        scores = {
            name: {d: proxies.scores(name, d, records) for d in self._setting.batches}
            for name in proxies.names
        }
        return Zoo(scores, self._refused)
