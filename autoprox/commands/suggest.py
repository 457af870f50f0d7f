"""The command `suggest`: which architectures to train next, and the results that came back."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from autoprox.benchmarks.growing_table import (
    AddedResults,
    GrowingTable,
    require_suggestion_file,
)
from autoprox.benchmarks.user_table import TableDataset
from autoprox.commands.search import dataset_class_count
from autoprox.configurations.commands import SuggestConfig
from autoprox.configurations.shared_options import path_of
from autoprox.errors import ConfigError, MeasurementError
from autoprox.evaluation.cache_settings import ZOO_FOLDER
from autoprox.evaluation.cached_zoo_scores import PublishedProxies
from autoprox.evaluation.configured_inputs import load_configured_batches
from autoprox.evaluation.proxy_measurement import SIZE_PROXIES, requested_proxy_names
from autoprox.files.atomic_writes import write_json
from autoprox.files.folder_checks import user_cache_folder
from autoprox.files.human_readable_sizes import parse_range
from autoprox.files.json_documents import JSONDocument
from autoprox.inputs.batch_loading import batch_shortfalls
from autoprox.inputs.training_datasets import slugify_name
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.progress import Progress, silent
from autoprox.runs.folder import locked
from autoprox.runs.summary import Choices
from autoprox.scoring.baselines import regression_features
from autoprox.scoring.correlations import Floats
from autoprox.scoring.expected_improvement import (
    MIN_LABELS,
    ScoreProcess,
    joint_normal_scores,
    next_networks,
)
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import LimitsError, SizeLimits
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import MeasurementSetting, resolve_device
from autoprox.statistics.untrained_networks import untrained_space_networks

DEFAULT_COUNT = 4
NO_PROXY = "none"


class SuggestedArchitecture(JSONDocument):
    """An architecture to train."""

    space: str
    choices: Choices
    params: int
    flops: int


class Suggestions(JSONDocument):
    """What was added to a table, and what to train next."""

    table: str
    space: str
    labels: Annotated[int, Field(description="Architectures of the table with true scores.")]
    added: Annotated[int, Field(description="Results that are new to the table.")] = 0
    known: Annotated[int, Field(description="Results that the table had already.")] = 0
    not_suggested: Annotated[
        int, Field(description="New results of architectures that were never suggested.")
    ] = 0
    proxies: tuple[str, ...] = ()
    prior_alone: Annotated[
        str | None, Field(description="Why the labels weren't used, if they weren't.")
    ] = None
    out: str | None = None
    suggestions: tuple[SuggestedArchitecture, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()


def suggest(config: SuggestConfig, progress: Progress = silent) -> Suggestions:
    """Add results to a table, suggest what to train next, and write both files.

    An error before that leaves the files as they were.
    """
    path = Path(config.table)
    _require_folder("table", path.parent)
    with locked(path.parent, "a table", f".{path.name}.lock"):
        table = _table(config)
        added = AddedResults(0, 0, 0)
        if config.add is not None:
            added = table.add(Path(config.add))
        count = config.count or (DEFAULT_COUNT if config.add is None else 0)
        found = Suggestions(
            table=str(path),
            space=table.space,
            labels=len(table.labels),
            added=added.new,
            known=added.known,
            not_suggested=added.not_suggested,
        )
        if count:
            out = _suggestion_file(config)
            found = _Suggester(config, table).suggest(found, count, progress)
            documents = [own.model_dump(include={"space", "choices"}) for own in found.suggestions]
            write_json(out, documents)
            found = found.model_copy(update={"out": str(out)})
        table.write()
    return found


def _require_folder(option: str, path: Path) -> None:
    if not path.is_dir():
        raise ConfigError(f"{option} must be a file in a folder that exists, but {path} is none")


def _suggestion_file(config: SuggestConfig) -> Path:
    """Return the file to write, which must be new or one of suggestions."""
    table = Path(config.table)
    out = path_of(config.out) or table.with_name(f"{table.stem}-next.json")
    _require_folder("out", out.parent)
    require_suggestion_file(out)
    return out


def _table(config: SuggestConfig) -> GrowingTable:
    """Read the table, or make one without architectures if there is no such file."""
    path = Path(config.table)
    given = {
        "datasets": config.datasets,
        "classes": config.classes,
        "lower_is_better": config.lower_is_better or None,
    }
    if path.exists() or path.is_symlink():
        for name, value in given.items():
            if value is not None:
                rule = f"{name} must be given for a new table only"
                raise ConfigError(f"{rule}, but {path} is there")
        return GrowingTable.read(path, config.space)
    if config.space is None or config.datasets is None:
        missing = "space" if config.space is None else "datasets"
        raise ConfigError(f"a new table needs space and datasets, but got no {missing}: {path}")
    if not config.datasets or len(set(config.datasets)) < len(config.datasets):
        got = ", ".join(config.datasets) or "none"
        raise ConfigError(f"each dataset must be named once, at least one, but got {got}")
    datasets = {
        name: TableDataset(
            classes=config.classes or dataset_class_count(name),
            higher_is_better=not config.lower_is_better,
        )
        for name in config.datasets
    }
    space = get_space(config.space).name
    return GrowingTable.empty(path, slugify_name(path.stem), space, datasets)


class _Suggester:
    """The architectures within the limits, and what is known of them."""

    def __init__(self, config: SuggestConfig, table: GrowingTable) -> None:
        self.config, self.table = config, table
        self.space: SearchSpace = get_space(table.space)
        self.dataset, described = next(iter(table.datasets.items()))
        self.classes = described.classes
        self.limits = SizeLimits(
            self.space,
            self.classes,
            parse_range("params", config.params),
            parse_range("flops", config.flops),
        )
        names = requested_proxy_names([name for name in config.proxy if name != NO_PROXY])
        if (NO_PROXY in config.proxy and names) or not config.proxy:
            got = ", ".join(config.proxy) or "nothing"
            raise ConfigError(f"proxy must name proxies, or be none alone, but got {got}")
        self.proxies = names
        self.counts: list[Shortfall] = []

    def suggest(self, found: Suggestions, count: int, progress: Progress) -> Suggestions:
        """Choose this many architectures, or as many as there are, and note them in the table."""
        candidates = self._candidates(count)
        labelled = list(self.table.labels)
        pending = list(self.table.suggested)
        every = [*labelled, *pending, *candidates]
        columns = self._scores(every, progress)
        measured = np.flatnonzero(np.isfinite(columns).all(axis=0)).tolist()
        first = len(labelled) + len(pending)
        left = [index for index in measured if index >= first]
        self.counts.append(
            Shortfall("candidates", len(candidates), len(left), "have a score of each proxy")
        )
        if not left:
            raise MeasurementError(
                f"a candidate must have a score of each proxy, but none of the {len(candidates)} "
                f"has: {', '.join(self.proxies)}"
            )
        filled = [_filled(column) for column in columns]
        process = ScoreProcess(regression_features("gaussian-process", self.space, every), filled)
        labels, reason = self._labels(labelled)
        known = range(len(labelled))
        waiting = range(len(labelled), first)
        chosen = next_networks(process, known, labels, left, count, pending=waiting)
        suggestions = tuple(self._described(every[index]) for index in chosen)
        self.table.suggest([every[index] for index in chosen])
        self.counts.append(
            Shortfall("suggestions", count, len(chosen), "are left within the limits")
        )
        return found.model_copy(
            update={
                "proxies": self.proxies,
                "prior_alone": reason,
                "suggestions": suggestions,
                "shortfalls": unmet(self.counts),
            }
        )

    def _candidates(self, count: int) -> list[Architecture]:
        """Draw architectures within the limits that are neither labelled nor suggested.

        What is excluded doesn't change which others are drawn: their scores are in the cache.
        """
        excluded = {*self.table.labels, *self.table.suggested}
        wanted = max(self.config.samples, count)
        sampler = ArchitectureSampler(self.limits)
        sampler.require()
        drawn = sampler.sample(wanted + len(excluded), random.Random(self.config.seed))
        found = [architecture for architecture in drawn if architecture not in excluded][:wanted]
        if not found:
            within = f"within {self.limits}" if self.limits.ranges else f"of {self.space.name}"
            raise LimitsError(
                f"an architecture {within} must be left to suggest, but all {len(drawn)} "
                "are in the table or were suggested before"
            )
        return found

    def _scores(self, architectures: Sequence[Architecture], progress: Progress) -> Floats:
        """Return the scores [proxies, networks]; those that aren't finite are nan."""
        config, scores = self.config, dict[str, Floats]()
        sizes = [self.limits.sizes(own)._asdict() for own in architectures]
        for name in SIZE_PROXIES:
            scores[name] = np.array([own[name] for own in sizes], dtype=np.float64)
        names = [name for name in self.proxies if name not in SIZE_PROXIES]
        if names:
            classes = {self.dataset: self.classes}
            batches = load_configured_batches(config, self.space, classes, config.seed)
            device = torch.device(resolve_device(config.device))
            self.counts += batch_shortfalls(config.batch_size, batches)
            networks = untrained_space_networks(self.space, architectures, config.seed)
            setting = MeasurementSetting(batches, device=device)
            with single_torch_thread(), WorkerPool(config.workers) as pool:
                published = PublishedProxies(
                    names, networks, setting, user_cache_folder() / ZOO_FOLDER, config.seed, pool
                )
                found = published.measured(progress)
            for name, why in found.refused.items():
                raise MeasurementError(f"{name} can't be measured: {why}")
            scores |= {name: own[self.dataset] for name, own in found.scores.items()}
        columns = np.array([scores[name] for name in self.proxies]).reshape(-1, len(architectures))
        return np.where(np.isfinite(columns), columns, np.nan)

    def _labels(self, labelled: Sequence[Architecture]) -> tuple[Floats, str | None]:
        """Return the labels to learn from, and why there are none if there are none."""
        signs = {
            name: 1.0 if own.higher_is_better else -1.0 for name, own in self.table.datasets.items()
        }
        truth = np.array(
            [[signs[d] * self.table.labels[a][d] for a in labelled] for d in signs]
        ).reshape(len(signs), -1)
        labels = joint_normal_scores(truth)
        if len(labelled) < MIN_LABELS:
            return labels, f"fewer than {MIN_LABELS} labels"
        return labels, None if np.ptp(labels) else "all labels are equal"

    def _described(self, architecture: Architecture) -> SuggestedArchitecture:
        sizes = self.limits.sizes(architecture)
        return SuggestedArchitecture(**architecture.to_json(), **sizes._asdict())


def _filled(column: Floats) -> Floats:
    """Replace what couldn't be measured by the median."""
    return np.where(np.isnan(column), np.nanmedian(column), column)
