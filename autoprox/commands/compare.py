"""The command compare: discoveries on the networks that none of them was evolved on."""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from autoprox.commands.rank import RankLogLine, RankSummary, RankTask
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import CompareConfig, RankConfig
from autoprox.errors import ConfigError
from autoprox.evaluation.proxy_measurement import all_proxy_names
from autoprox.evaluation.time_estimate import TimeEstimate
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.scoring.bootstrap import Number, finite_or_none, split_networks
from autoprox.scoring.correlations import kendall
from autoprox.shortfalls import Shortfall
from autoprox.zoo.proxy_loading import find_run

MIN_UNSEEN = 10  # networks to compare on
SAME = ("benchmark", "space", "label", "subset", "networks", "ties")
SHARED = (
    *("data_dir", "device", "weights", "images", "text", "batch_size", "length"),
    *("seed", "seeds"),
)
RESOURCES = ("workers", "backend", "scheduler")


class CompareSummary(RankSummary):
    """The summary of `autoprox compare`."""

    between: Annotated[
        dict[str, dict[str, Number]],
        Field(description="Tau-b of the proxies' scores with each other's."),
    ]


class CompareTask(CommandTask[CompareConfig, CompareSummary]):
    """A ranking of the networks that are new to all of the compared discoveries."""

    summary = CompareSummary

    def __init__(self, config: CompareConfig) -> None:
        names = tuple(dict.fromkeys(map(str, config.proxies)))
        if len(names) < 2:
            raise ConfigError(f"two different proxies must be given, but got {', '.join(names)}")
        runs = _configurations(names)
        first = next(iter(runs.values()))
        self.rank = RankTask(
            RankConfig(
                proxies=names,
                **{name: first[name] for name in SAME if name in first},
                datasets=_common_datasets(runs),
                **{name: getattr(config, name) for name in (*RESOURCES, *SHARED)},
            )
        )
        filled = {"proxies": names, "device": self.rank.config.device}
        super().__init__(config.model_copy(update=filled))
        self.rank.restrict(self._unseen(runs))

    def _unseen(self, runs: Mapping[str, Mapping[str, Any]]) -> list[int]:
        """Return the networks of the benchmark that no run was evolved on."""
        networks = len(self.rank.benchmark.architectures)
        seen = [
            split_networks(networks, own["split_seed"], own["train"])[0] for own in runs.values()
        ]
        unseen = np.setdiff1d(np.arange(networks), reduce(np.union1d, seen))
        if len(unseen) < MIN_UNSEEN:
            raise ConfigError(
                f"at least {MIN_UNSEEN} networks must be new to all runs, but are {len(unseen)} of "
                f"{networks}: runs of one --split-seed leave the most"
            )
        return [int(network) for network in unseen]

    @property
    def name(self) -> str:
        return f"compare-{self.rank.benchmark.name}-{self.rank.benchmark.space}"

    @property
    def read(self) -> dict[str, str]:
        return self.rank.read

    @property
    def counts(self) -> list[Shortfall]:
        return self.rank.counts

    def estimate(self) -> TimeEstimate:
        """Estimate the ranking."""
        return self.rank.estimate()

    def work(self, run: Run, progress: Progress) -> CompareSummary:
        """Rank, and correlate the proxies' scores with each other."""
        lines = self.rank.measured(run, progress)
        with as_written(run.path, "a log"):
            ranking = self.rank.summarise(lines)
            between = self._between(lines)
        return CompareSummary(**dict(ranking), between=between)

    def _between(self, lines: Sequence[RankLogLine]) -> dict[str, dict[str, Number]]:
        """Return tau-b of the proxies' scores, means over datasets and seeds."""
        datasets = self.rank.benchmark.datasets
        scores = {
            proxy: np.concatenate([self.rank.scores(lines, proxy, own) for own in datasets])
            for proxy in self.rank.config.proxies
        }

        def mean(left: str, right: str) -> Number:
            pairs = zip(scores[left], scores[right], strict=True)
            known = [(a[ok], b[ok]) for a, b in pairs if (ok := np.isfinite(a + b)).sum() > 1]
            return finite_or_none(np.mean([kendall(a, b) for a, b in known])) if known else None

        return {one: {other: mean(one, other) for other in scores} for one in scores}


def _configurations(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the configurations of the runs among the proxies, which must be of one benchmark."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in all_proxy_names():
            continue
        if (run := find_run(name)) is None:
            rule = "a proxy must be a run of evolve, RUN:N or a published name"
            raise ConfigError(f"{rule}, so that it is known what it was evolved on, got {name!r}")
        config = Run.open(Path(run[0]), "evolve").read_config()
        if config.get("spaces"):
            spaces = ", ".join(config["spaces"])
            raise ConfigError(
                f"a run must be of one space to be compared, but {name} is of {spaces}"
            )
        found[name] = config
    if not found:
        raise ConfigError(f"a run of `autoprox evolve` is needed, but got {', '.join(names)}")
    (first, one), *others = found.items()
    for name, other in others:
        for fact in SAME:
            if one.get(fact) != other.get(fact):
                raise ConfigError(
                    f"runs must have the same {fact} to be compared, but {first} has "
                    f"{one.get(fact)} and {name} {other.get(fact)}"
                )
    return found


def _common_datasets(runs: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the datasets that all runs have."""
    with as_written(", ".join(runs)):
        first, *others = [own["datasets"] for own in runs.values()]
        common = tuple(dataset for dataset in first if all(dataset in own for own in others))
    if not common:
        raise ConfigError("runs must have a dataset in common to be compared, but have none")
    return common
