"""Published proxies on networks of a space, each network's values in a cache."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from autoprox.evaluation.proxy_measurement import MeasuredProxies, NetworkValues
from autoprox.files.atomic_writes import to_json, write_json
from autoprox.files.function_import_and_digest import code_digest
from autoprox.files.json_documents import read_json, validate_json
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.primitives import PRIMITIVES
from autoprox.progress import Progress, silent
from autoprox.scoring.correlations import ScoresByDataset
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import FAILURES, MeasureNetwork
from autoprox.statistics.untrained_networks import SpaceNetwork, UntrainedNetwork
from autoprox.zoo.functions import FUNCTION_PROXIES


class ZooScores(NamedTuple):
    """The scores of published proxies on all networks, and why others can't be measured."""

    scores: Mapping[str, ScoresByDataset]
    refused: Mapping[str, str]


class PublishedProxies:
    """Published proxies of networks, measured with their statistics or alone."""

    def __init__(
        self,
        names: Sequence[str],
        networks: Sequence[SpaceNetwork],
        setting: MeasurementSetting,
        cache: Path,
        seed: int,
        pool: WorkerPool,
    ) -> None:
        self._names, self._networks, self._setting = names, networks, setting
        self._cache, self._seed, self._pool = cache, seed, pool

    @cached_property
    def _refused(self) -> dict[str, str]:
        """Why proxies can't take these inputs, by the first network that doesn't fail."""
        measured = MeasuredProxies(self._names)
        for network in self._networks:
            with suppress(*FAILURES):  # which are reported where the network is measured
                return measured.refused(network, self._setting, self._seed)
        return {}

    @cached_property
    def _proxies(self) -> MeasuredProxies:
        return MeasuredProxies([name for name in self._names if name not in self._refused])

    @cached_property
    def _about(self) -> list[Any]:
        """Everything that values depend on apart from the network."""
        proxies, batches = self._proxies, self._setting.batches
        inputs = {dataset: batch.digest for dataset, batch in batches.items()}
        functions = [FUNCTION_PROXIES[name].function for name in proxies.functions]
        code = code_digest(*functions, *(own.function for own in PRIMITIVES.values()))
        versions = code, torch.__version__, version("autoprox")
        return [*proxies.names, *map(str, proxies.terms), inputs, *versions]

    def _path(self, network: UntrainedNetwork) -> Path:
        key = to_json([self._about, network.identity])
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    @property
    def measure(self) -> MeasureNetwork:
        """Measure a network's values in the same passes as its statistics."""
        return partial(self._proxies.measure_with, self._setting, self._seed)

    def _read(self, network: UntrainedNetwork) -> NetworkValues:
        return validate_json(read_json(self._path(network)), NetworkValues)

    def wants(self, network: UntrainedNetwork) -> bool:
        """Return whether a network isn't in the cache."""
        return bool(self._proxies.names) and not self._path(network).exists()

    def keep(self, network: UntrainedNetwork, found: NetworkValues) -> None:
        """Put a network's values into the cache."""
        self._cache.mkdir(parents=True, exist_ok=True)
        write_json(self._path(network), found.model_dump(mode="json"))

    def measured(self, progress: Progress = silent) -> ZooScores:
        """Return all scores, after measuring the networks that the cache lacks."""
        proxies, networks = self._proxies, self._networks
        todo = [network for network in networks if self.wants(network)]
        left = iter(todo)

        def keep(found: NetworkValues) -> None:
            self.keep(network := next(left), found)
            progress("zoo", todo.index(network) + 1, len(todo), "")

        proxies.measured(todo, self._setting, self._seed, self._pool, keep)
        records = [self._read(network) for network in networks] if proxies.names else []
        archs = [network.architecture for network in networks]
        scores = {
            name: {
                dataset: proxies.scores(
                    name, [own.values.get(dataset, {}) for own in records], archs, dataset
                )
                for dataset in self._setting.batches
            }
            for name in proxies.names
        }
        return ZooScores(scores, self._refused)
