"""The problem that one space poses to an evolution: its networks, true scores, split and inputs."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path

import torch

from autoprox.benchmarks import BENCHMARKS, available_datasets, load_benchmark
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import SourceNetworks, TreeEvaluator
from autoprox.errors import ConfigError, nearest
from autoprox.evaluation.cache_settings import cache_settings
from autoprox.evaluation.cached_zoo_scores import PublishedProxies, ZooScores
from autoprox.evaluation.configured_inputs import (
    configured_worker_pool,
    input_digests,
    load_configured_batches,
    load_configured_benchmark,
)
from autoprox.evaluation.fitness_evaluator import MeasuredNetworks
from autoprox.evaluation.full_resolution_choice import FullResolutionNetworks
from autoprox.evaluation.proxy_training_split import split_record
from autoprox.files.folder_checks import make_writable
from autoprox.inputs.batch_loading import batch_shortfalls
from autoprox.language import Statistic
from autoprox.progress import Progress, silent
from autoprox.runs.proxy_file import Split
from autoprox.scoring.bootstrap import MIN_NEAR_SIZE_PAIRS, split_networks
from autoprox.scoring.correlations import Indices
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.shortfalls import Shortfall
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.untrained_networks import SpaceNetwork, untrained_space_networks

SUBSAMPLED_WEIGHTS = 300_000  # of a network, on average, while evolution compares formulas
IMAGE_OPTIONS: dict[str, None] = {"images": None}
TOKEN_OPTIONS: dict[str, None] = {"text": None, "length": None}


class SpaceProblem:
    """The networks of one space that formulas are evolved and tested on.

    `config` is the configuration with the benchmark, space, datasets, label and stride filled in.
    """

    def __init__(self, config: EvolveConfig) -> None:
        self.benchmark = load_configured_benchmark(config)
        self.space = get_space(self.benchmark.space)
        self.config = config.model_copy(
            update={
                "benchmark": config.benchmark or self.benchmark.name,
                "space": self.benchmark.space,
                "datasets": self.benchmark.datasets,
                "label": self.benchmark.label,
                "stride": config.stride or self._default_stride(),
            }
        )
        self.batches = load_configured_batches(
            config, self.space, self.benchmark.classes, config.seed
        )
        networks = len(self.benchmark.architectures)
        train, test = split_networks(networks, config.split_seed, config.train)
        self.parts = {"train": train, "test": test}
        self._check_parts()
        make_writable("the cache", "--cache", self.cache)

    def _default_stride(self) -> int:
        """Return the least power of two that leaves few enough weights for a fast evolution."""
        sizes = [self.space.params(a, classes=1) for a in self.benchmark.architectures]
        stride = 1
        while sum(sizes) / len(sizes) / stride**2 > SUBSAMPLED_WEIGHTS:
            stride *= 2
        return stride

    def _check_parts(self) -> None:
        for dataset, scores in self.benchmark.scores.items():
            for name, part in self.parts.items():
                if len(set(scores[part])) < 2:
                    raise ConfigError(
                        f"the {name} part must have at least two distinct scores of {dataset} to "
                        f"correlate with, but its {len(part)} networks have {scores[part][0]:g}: "
                        "choose another --split-seed or --train"
                    )
        if self.config.objective == "jcm":
            return
        pairs = self.evaluation_set(range(len(self.benchmark.architectures))).pairs
        if pairs < MIN_NEAR_SIZE_PAIRS:
            raise ConfigError(
                f"the objective {self.config.objective} needs {MIN_NEAR_SIZE_PAIRS} pairs of "
                f"networks whose parameters differ by less than 10 %, but there are {pairs}"
            )

    @property
    def read(self) -> dict[str, str]:
        """A digest of the benchmark and of each dataset's inputs."""
        return input_digests(self.batches, self.benchmark)

    @property
    def counts(self) -> list[Shortfall]:
        """The samples of a batch that were asked for, and those there are."""
        return batch_shortfalls(self.config.batch_size, self.batches)

    @property
    def cache(self) -> Path:
        """The folder of the networks' statistics."""
        return cache_settings(self.config).folder

    def setting(self, stride: int | None = None, seed: int | None = None) -> MeasurementSetting:
        """Return how networks are measured: as configured, unless given."""
        config, batches = self.config, self.batches
        if seed is not None:
            batches = load_configured_batches(config, self.space, self.benchmark.classes, seed)
        return MeasurementSetting(
            batches, stride or config.stride or 1, torch.device(config.device)
        )

    def networks(self, seed: int | None = None) -> list[SpaceNetwork]:
        """Return the benchmark's untrained networks, with the configured seed unless given."""
        config = self.config
        return untrained_space_networks(
            self.space,
            self.benchmark.architectures,
            config.seed if seed is None else seed,
            shared=config.shares_weights,
        )

    def evaluation_set(self, networks: Sequence[int]) -> EvaluationSet:
        """Return some of the benchmark's networks with their true scores."""
        return EvaluationSet(self.benchmark, networks, self.config.seed, self.config.ties)

    def collect(
        self,
        needs: set[Statistic],
        part: Indices,
        memory: int,
        progress: Progress = silent,
        seed: int | None = None,
    ) -> CachedMatrices:
        """Measure the subsampled statistics of some training networks, or read them from the cache.

        The matrices that are resident take at most `memory` bytes. Published proxies are measured
        in the same passes, unless a seed is given.
        """
        networks = self.networks(seed)
        matrices = CachedMatrices(
            self.setting(seed=seed),
            [networks[n] for n in part],
            needs,
            memory=memory,
            pool=configured_worker_pool(self.config),
            **cache_settings(self.config)._asdict(),
        )
        done = count(1)
        extra = self._published if seed is None else None
        matrices.collect(lambda: progress("collect", next(done), len(part), ""), extra)
        return matrices

    def measured_networks(
        self, sources: Sequence[tuple[TreeEvaluator, Indices]]
    ) -> MeasuredNetworks:
        """Return the training networks of some engines, without those that failed."""
        blocks = [SourceNetworks(engine, engine.source.measurable) for engine, _ in sources]
        networks = [n for engine, part in sources for n in part[engine.source.measurable].tolist()]
        return MeasuredNetworks(self.evaluation_set(networks), blocks)

    def full_resolution(
        self,
        failed: Mapping[int, str],
        held_out: bool = False,
        with_zoo: bool = True,
        progress: Progress = silent,
    ) -> FullResolutionNetworks:
        """Return all networks at full resolution, without those that failed.

        All networks of a held-out space are test networks.
        """
        settings = [self.setting(stride=1), self.setting(stride=1, seed=self.config.seed + 1)]
        parts = {name: part.tolist() for name, part in self.parts.items()}
        if held_out:
            parts["test"] = list(range(len(self.benchmark.architectures)))
        extra = self._published if with_zoo else None
        return FullResolutionNetworks(
            self.benchmark, self.config, parts, settings, failed, held_out, extra, progress
        )

    def zoo_scores(self, progress: Progress = silent) -> ZooScores:
        """Return the scores of the published proxies to compare with."""
        return self._published.measured(progress)

    def published_in(self, folder: Path) -> PublishedProxies:
        """Return the published proxies, their values cached in a folder."""
        config, setting = self.config, self.setting(stride=1)
        pool = configured_worker_pool(config)
        return PublishedProxies(config.zoo, self.networks(), setting, folder, config.seed, pool)

    @cached_property
    def _published(self) -> PublishedProxies:
        return self.published_in(self.cache.with_name("zoo"))

    def split_record(self) -> Split:
        """Return what a proxy file records of the split."""
        return split_record(self.benchmark, self.config)


def space_problems(config: EvolveConfig) -> dict[str, SpaceProblem]:
    """Return the problem of each of the configuration's spaces, by its name."""
    if config.spaces is None:
        problem = SpaceProblem(config)
        return {problem.space.name: problem}
    entries = config.spaces
    if not entries or len(set(entries)) < len(entries):
        got = ", ".join(entries) or "none"
        raise ConfigError(f"each space must be named once, at least one, but got {got}")
    if config.space is not None:
        raise ConfigError(f"either --space or --spaces must be given, but got {config.space} too")
    targets = {entry: _benchmark_and_space(entry, config) for entry in entries}
    datasets = _datasets(targets, config)
    irrelevant = _irrelevant_options(targets)
    found: dict[str, SpaceProblem] = {}
    seen: dict[tuple[str, str], str] = {}
    for entry, (benchmark, space) in targets.items():
        own = {"benchmark": benchmark, "space": space, "datasets": datasets[entry]}
        shared = {"spaces": None, "hold_out": None, "dataset_weights": None, **irrelevant[entry]}
        problem = SpaceProblem(config.model_copy(update={**shared, **own}))
        key = problem.benchmark.digest, problem.space.name
        name = problem.benchmark.name if entry.endswith(".json") else entry
        if key in seen or name in found:
            other = seen.get(key, name)
            raise ConfigError(f"each space must be named once, but {entry} is {other} again")
        seen[key], found[name] = entry, problem
    return found


Target = tuple[str | None, str | None]  # a benchmark and a space; None leaves it to the other


def _benchmark_and_space(entry: str, config: EvolveConfig) -> Target:
    benchmark, colon, space = entry.partition(":")
    if colon and benchmark in BENCHMARKS:
        return benchmark, space
    if entry.endswith(".json"):
        return entry, None
    return None if config.benchmark is None else str(config.benchmark), entry


def _irrelevant_options(targets: Mapping[str, Target]) -> dict[str, dict[str, None]]:
    """Return the options of inputs to leave out for a space because they concern another."""
    found = {}
    for entry, (benchmark, space) in targets.items():
        name = space or load_benchmark(benchmark).space
        found[entry] = IMAGE_OPTIONS if isinstance(get_space(name), TokenSpace) else TOKEN_OPTIONS
    both = IMAGE_OPTIONS in found.values() and TOKEN_OPTIONS in found.values()
    return found if both else {entry: {} for entry in targets}


def _datasets(
    targets: Mapping[str, Target], config: EvolveConfig
) -> dict[str, Sequence[str] | None]:
    """Return the requested datasets that each space has; None for all."""
    if config.datasets is None:
        return dict.fromkeys(targets)
    offered = {entry: available_datasets(*own, config.label) for entry, own in targets.items()}
    known = list(dict.fromkeys(dataset for own in offered.values() for dataset in own))
    for dataset in config.datasets:
        if dataset not in known:
            raise ConfigError(f"no chosen space has a dataset {dataset!r}{nearest(dataset, known)}")
    for entry, own in offered.items():
        if not set(own).intersection(config.datasets):
            asked = ", ".join(config.datasets)
            raise ConfigError(f"{entry} has none of the datasets {asked}: it has {', '.join(own)}")
    return {
        entry: tuple(dataset for dataset in config.datasets if dataset in own)
        for entry, own in offered.items()
    }
