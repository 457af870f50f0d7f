"""Published proxies on all networks of a discovery, whole: what the chosen one is compared with."""

import hashlib
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from autoprox import __version__
from autoprox.benchmarks import Benchmark
from autoprox.files.atomic import to_json, write_json
from autoprox.files.code import code_digest
from autoprox.files.located_json import read_object
from autoprox.primitives import PRIMITIVES
from autoprox.progress import Progress, silent
from autoprox.scoring.tables import Scores
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import UntrainedNetwork, space_networks
from autoprox.statistics.sources import MeasureAlong
from autoprox.tasks.base import crew_of
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.proxies import Proxies
from autoprox.zoo.functions import FUNCTION_PROXIES


class Zoo(NamedTuple):
    """The scores of published proxies on all networks; which take other inputs, and why."""

    scores: Mapping[str, Scores]
    refused: Mapping[str, str]


class PublishedProxies:
    """Those of a configuration, of each network in a cache once it is measured.

    They are measured along with the network's statistics, or by themselves.
    """

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
    def _about(self) -> list[Any]:
        """All that values depend on besides the network."""
        proxies, batches = self._proxies, self._setting.batches
        inputs = {dataset: batch.digest for dataset, batch in batches.items()}
        functions = [FUNCTION_PROXIES[name].function for name in proxies.functions]
        code = code_digest(*functions, *(own.function for own in PRIMITIVES.values()))
        versions = code, torch.__version__, __version__
        return [*proxies.names, *map(str, proxies.terms), inputs, *versions]

    def _path(self, network: UntrainedNetwork) -> Path:
        key = to_json([self._about, network.identity])
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    @property
    def measure(self) -> MeasureAlong:
        """Measure a network's values in the passes for its statistics."""
        return partial(self._proxies.along, self._setting, self._config.seed)

    def wants(self, network: UntrainedNetwork) -> bool:
        """Whether a network isn't in the cache."""
        return bool(self._proxies.names) and not self._path(network).exists()

    def keep(self, network: UntrainedNetwork, found: Any) -> None:
        """Put a network's values into the cache."""
        self._cache.mkdir(parents=True, exist_ok=True)
        write_json(self._path(network), found)

    def measured(self, progress: Progress = silent) -> Zoo:
        """From the cache, after measuring the networks that aren't there."""
        proxies, networks, config = self._proxies, self._networks, self._config
        todo = [network for network in networks if self.wants(network)]
        left = iter(todo)

        def keep(line: dict[str, Any]) -> None:
            self.keep(network := next(left), line)
            progress("zoo", todo.index(network) + 1, len(todo), "")

        proxies.measured(todo, self._setting, config.seed, crew_of(config), keep)
        records = [read_object(self._path(own)) for own in networks] if proxies.names else []
        scores = {
            name: {d: proxies.scores(name, d, records) for d in self._setting.batches}
            for name in proxies.names
        }
        return Zoo(scores, self._refused)
