"""Compares discoveries on the networks that none of them was evolved on."""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from autoprox.errors import ConfigError
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.scoring.correlations import kendall, split
from autoprox.scoring.resampling import plain
from autoprox.shortfalls import Shortfall
from autoprox.tasks.base import Task, completed
from autoprox.tasks.configurations import CompareConfig, RankConfig
from autoprox.tasks.estimate import Estimate
from autoprox.tasks.proxies import all_proxies
from autoprox.tasks.rank import Rank, Records
from autoprox.zoo.proxy_loading import find_run

FEWEST = 10  # networks to compare on
SAME = ("benchmark", "space", "label", "subset", "ties")
SHARED = ("data_dir", "device", "images", "text", "batch_size", "length", "seed", "seeds")


class Compare(Task[CompareConfig]):
    """The proxies, and the ranking of the networks that are new to all of them."""

    def __init__(self, config: CompareConfig) -> None:
        names = tuple(dict.fromkeys(map(str, config.proxies)))
        if len(names) < 2:
            raise ConfigError(f"two different proxies must be given, but got {', '.join(names)}")
        runs = _runs(names)
        first = next(iter(runs.values()))
        given = {name: getattr(config, name) for name in SHARED}
        self.rank = Rank(
            RankConfig(
                proxies=names,
                **{name: first[name] for name in SAME if name in first},
                datasets=_datasets(runs),
                **{name: getattr(config, name) for name in ("workers", "backend", "scheduler")},
                **given,
            )
        )
        super().__init__(completed(config, proxies=names, device=self.rank.config.device))
        self.rank.restrict(self._unseen(runs))

    def _unseen(self, runs: Mapping[str, Mapping[str, Any]]) -> list[int]:
        """The networks of the benchmark that no run was evolved on."""
        networks = len(self.rank.benchmark.architectures)
        seen = [split(networks, own["split_seed"], own["train"])[0] for own in runs.values()]
        unseen = np.setdiff1d(np.arange(networks), reduce(np.union1d, seen))
        if len(unseen) < FEWEST:
            raise ConfigError(
                f"at least {FEWEST} networks must be new to all runs, but are {len(unseen)} of "
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

    def estimate(self) -> Estimate:
        """That of the ranking."""
        return self.rank.estimate()

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Rank, and set the proxies' scores beside each other's."""
        summary = self.rank.work(run, progress)
        return {**summary, "between": self._between(run.read_log())}

    def _between(self, records: Records) -> dict[str, dict[str, float | None]]:
        """Tau-b of the proxies' scores, means over datasets and seeds."""
        rank = self.rank
        scores = {
            proxy: np.concatenate(
                [rank.scores(records, proxy, dataset) for dataset in rank.benchmark.datasets]
            )
            for proxy in rank.config.proxies
        }

        def mean(left: str, right: str) -> float | None:
            pairs = zip(scores[left], scores[right], strict=True)
            known = [(a[ok], b[ok]) for a, b in pairs if (ok := np.isfinite(a + b)).sum() > 1]
            return plain(np.mean([kendall(a, b) for a, b in known])) if known else None

        return {one: {other: mean(one, other) for other in scores} for one in scores}


def _runs(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The configurations of the runs among the proxies, which must be of one benchmark."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in all_proxies():
            continue
        place = find_run(name)
        if place is None:
            rule = "a proxy must be a run of evolve, RUN:N or a published name"
            raise ConfigError(f"{rule}, so that it is known what it was evolved on, got {name!r}")
        config = Run.open(Path(place[0]), "evolve").read_config()
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


def _datasets(runs: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Those that all runs have."""
    with as_written(", ".join(runs)):
        first, *others = [own["datasets"] for own in runs.values()]
        common = tuple(dataset for dataset in first if all(dataset in own for own in others))
    if not common:
        raise ConfigError("runs must have a dataset in common to be compared, but have none")
    return common
