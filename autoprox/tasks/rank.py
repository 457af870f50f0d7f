"""Ranks proxies side by side: each of them on every network of a benchmark, over several seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import product, takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from autoprox.errors import MeasurementError, RunError, lacked_memory
from autoprox.files.atomic import write_text
from autoprox.files.documents import Document, Finite
from autoprox.inputs.batches import batch_counts
from autoprox.language import statistics
from autoprox.progress import Progress
from autoprox.report.terminal.ranking import FAILED, NOT_FINITE, as_csv, as_markdown
from autoprox.runs.folder import Run, as_written
from autoprox.scoring.correlations import (
    CORRELATIONS,
    TIES,
    Correlation,
    Floats,
    bootstrap_interval,
    split,
)
from autoprox.scoring.regret import SHARES
from autoprox.scoring.resampling import Worth, plain
from autoprox.scoring.seeds import SEED_SHARE, seed_share
from autoprox.scoring.tables import Judge, Scores, baselines, cross_fitted_ridge
from autoprox.searchspaces import get_space
from autoprox.shortfalls import Shortfall
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.statistics.networks import space_networks
from autoprox.tasks.base import (
    Task,
    batches_of,
    benchmark_of,
    completed,
    digests,
    require_choice,
)
from autoprox.tasks.configurations import RankConfig
from autoprox.tasks.estimate import Estimate, middle
from autoprox.tasks.evolved_on import training_architectures
from autoprox.tasks.proxies import COUNTS, Proxies, named_proxies
from autoprox.zoo.published_correlations import compare_with_published, published_correlations

Records = Sequence[Mapping[str, Any]]
MakeJudge = Callable[[tuple[int, ...]], Judge]


class Line(Document):
    """What the log says of a network."""

    seed: int
    network: int
    failure: str | None
    values: dict[str, dict[str, Finite | None]]
    seconds: Finite


class Rank(Task[RankConfig]):
    """The proxies to rank, and the networks of a benchmark to measure them on."""

    def __init__(self, config: RankConfig) -> None:
        self.benchmark = benchmark_of(config)
        self.space = get_space(self.benchmark.space)
        names = named_proxies(config.proxies)
        require_choice("ties", config.ties, TIES)
        super().__init__(
            completed(
                config,
                proxies=names,
                benchmark=config.benchmark or self.benchmark.name,
                space=self.benchmark.space,
                datasets=self.benchmark.datasets,
                label=self.benchmark.label,
                device=resolve_device(config.device),
            )
        )
        self.proxies = Proxies(names)
        self.setting(config.seed)
        self._trained = {
            name: training_architectures(name, self.config, self.benchmark)
            for name in self.proxies.trees
        }

    @property
    def name(self) -> str:
        return f"rank-{self.benchmark.name}-{self.benchmark.space}"

    @property
    def read(self) -> dict[str, str]:
        proxies = "\n".join(f"{name} {tree}" for name, tree in self.proxies.trees.items())
        return digests(self.setting(self.config.seed).batches, self.benchmark, proxies=proxies)

    @property
    def counts(self) -> list[Shortfall]:
        return batch_counts(self.config.batch_size, self.setting(self.config.seed).batches)

    def setting(self, seed: int) -> Setting:
        """How networks are measured with one of the seeds, which also draws the noise."""
        batches = batches_of(self.config, self.space, self.benchmark.classes, seed)
        return Setting(batches, device=torch.device(self.config.device))

    def restrict(self, networks: Sequence[int]) -> None:
        """Rank these networks of the benchmark alone."""
        own, chosen = self.benchmark, list(networks)
        self.benchmark = replace(
            own,
            architectures=tuple(own.architectures[n] for n in chosen),
            scores={dataset: scores[chosen] for dataset, scores in own.scores.items()},
        )

    def evolved_on(self) -> dict[str, list[int]]:
        """Return the networks of the ranking that each proxy was evolved on, if any."""
        found = {
            proxy: [n for n, arch in enumerate(self.benchmark.architectures) if arch in trained]
            for proxy, trained in self._trained.items()
        }
        return {proxy: networks for proxy, networks in found.items() if networks}

    def seeds(self) -> range:
        """The seeds, from the configured one on."""
        return range(self.config.seed, self.config.seed + self.config.seeds)

    def estimate(self) -> Estimate:
        """From one of the networks."""
        architectures, config = self.benchmark.architectures, self.config
        one: list[dict[str, Any]] = []
        self.measured(config.seed, [middle(self.space, architectures)], one.append)
        count = len(architectures) * config.seeds
        work = count * one[0]["seconds"] / self.crew.size
        return Estimate(count, len(self.benchmark.datasets), work)

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Measure; the log has a line for each network and seed, which isn't measured again."""
        run.check_log(Line)
        records = list(takewhile(_told, run.read_log()))
        known = {(record["seed"], record["network"]) for record in records}
        networks = range(len(self.benchmark.architectures))
        if len(known) < len(records) or not known <= set(product(self.seeds(), networks)):
            raise RunError(f"the log of {run.path} must have each seed and network once")
        run.truncate_log(len(records))
        total = len(networks) * self.config.seeds
        progress("measure", len(records), total, "")

        def keep(record: dict[str, Any]) -> None:
            run.log(record)
            records.append(record)
            progress("measure", len(records), total, "")

        for seed in self.seeds():
            todo = [network for network in networks if (seed, network) not in known]
            self.measured(seed, todo, keep)
        with as_written(run.path, "a log") if known else nullcontext():
            summary = summarise(self, records)
        for suffix, text in (("csv", as_csv(summary["rows"])), ("md", as_markdown(summary))):
            write_text(run.path / f"table.{suffix}", text)
        return summary

    def measured(
        self, seed: int, networks: Sequence[int], take: Callable[[dict[str, Any]], None]
    ) -> None:
        """Take what is asked of each network."""
        architectures = [self.benchmark.architectures[n] for n in networks]
        untrained = space_networks(self.space, architectures, seed)
        numbers = iter(networks)
        self.proxies.measured(
            untrained,
            self.setting(seed),
            seed,
            self.crew,
            lambda line: take({"seed": seed, "network": next(numbers), **line}),
        )

    def scores(self, records: Records, proxy: str, dataset: str) -> Floats:
        """[seeds, networks], nan where a proxy has no value."""
        architectures = self.benchmark.architectures
        shape = (self.config.seeds, len(architectures))
        if proxy in COUNTS:
            count, failed = getattr(self.space, proxy), _failed(records)
            classes = self.benchmark.classes[dataset]
            counts = [
                np.nan if network in failed else float(count(architecture, classes))
                for network, architecture in enumerate(architectures)
            ]
            return np.broadcast_to(counts, shape)
        scores = np.full(shape, np.nan)
        for index, seed in enumerate(self.seeds()):
            own = [record for record in records if record["seed"] == seed]
            places = [record["network"] for record in own]
            scores[index, places] = self.proxies.scores(proxy, dataset, own)
        return scores


def summarise(ranking: Rank, records: Records) -> dict[str, Any]:
    """A row for each proxy and dataset: the best mean of Kendall's tau over the seeds first."""
    config, benchmark, failed = ranking.config, ranking.benchmark, _failed(records)
    if len(benchmark.architectures) - len(failed) < 2:
        reason = next(record["failure"] for record in records if record["failure"])
        raise MeasurementError(f"at least two networks must be measured, but not so: {reason}")
    scores = {
        proxy: {d: ranking.scores(records, proxy, d) for d in benchmark.datasets}
        for proxy in config.proxies
    }
    judge = cache(lambda valid: Judge(benchmark, valid, config.seed, config.ties))
    evolved_on = _evolved_on(ranking, judge, scores)
    rows = []
    for dataset in benchmark.datasets:
        own = [_row(ranking, judge, proxy, dataset, scores[proxy][dataset]) for proxy in scores]
        rows += sorted(own, key=lambda row: 2 if row["kendall"] is None else -row["kendall"])
    beside = (benchmark.name, benchmark.space, benchmark.label)
    return {
        "rows": rows,
        **({"published": compare_with_published(rows, *beside)} if config.published else {}),
        **overall(ranking, judge, scores, failed),
        **({"evolved_on": evolved_on} if evolved_on else {}),
        "invalid": _left_out(records, scores),
        "benchmark": benchmark.source,
        "networks": len(benchmark.architectures),
        "seeds": config.seeds,
        "ties": config.ties,
        "seconds": round(sum(record["seconds"] for record in records), 3),
    }


def _row(
    ranking: Rank, judge: MakeJudge, proxy: str, dataset: str, scores: Floats
) -> dict[str, Any]:
    """All figures of a proxy on the networks of a dataset for which it has scores."""
    benchmark, config = ranking.benchmark, ranking.config
    valid = _valid(scores)
    truth = benchmark.scores[dataset][list(valid)]
    row: dict[str, Any] = {"proxy": proxy, "dataset": dataset, "std": {}}
    row |= {"interval": {"kendall": [None, None]}, "regret": [None] * len(SHARES)}
    row |= dict.fromkeys(("tau_b", "given_size", "equal_size"))
    if len(valid) > 1:
        figures = judge(valid).table({dataset: scores[:, valid]})[dataset]
        row["interval"]["kendall"] = figures.pop("interval")
        row |= figures
    for name, correlation in {**CORRELATIONS, "kendall": TIES[config.ties]}.items():
        each = correlation(scores[:, valid], truth) if len(valid) > 1 else np.array(np.nan)
        row[name], row["std"][name] = plain(each.mean()), plain(each.std())
        if name != "kendall":
            row["interval"][name] = _interval(correlation, scores[:, valid], truth, config.seed)
    row["invalid"] = scores.shape[1] - len(valid)
    place = (benchmark.name, benchmark.space, benchmark.label, dataset)
    return {**row, "published": published_correlations(*place, proxy)._asdict()}


def _interval(
    correlation: Correlation, scores: Floats, truth: Floats, seed: int
) -> list[float | None]:
    """Of the mean over the seeds."""

    def mean(left: ArrayLike, right: ArrayLike) -> Floats:
        return np.asarray(correlation(np.moveaxis(np.asarray(left), -1, 0), right).mean(axis=0))

    if len(truth) < 2:
        return [None, None]
    return [plain(bound) for bound in bootstrap_interval(mean, scores.T, truth, seed)]


def overall(
    ranking: Rank, judge: MakeJudge, scores: Mapping[str, Scores], failed: Container[int]
) -> dict[str, Any]:
    """Means over the datasets: of each proxy, beside the baselines, and of the one to choose."""
    benchmark = ranking.benchmark
    rivals = {**baselines(benchmark), "ridge": cross_fitted_ridge(benchmark)}
    means, comparison, size = {}, {}, {}
    for proxy, own in scores.items():
        valid = _valid(np.concatenate(list(own.values())))
        if len(valid) < 2:
            continue
        judged = judge(valid)
        found = judged.mean({d: values[:, valid] for d, values in own.items()})
        means[proxy] = found.row()
        comparison[proxy] = {
            name: found.less(judged.mean({d: values[list(valid)] for d, values in other.items()}))
            for name, other in rivals.items()
        }
        size[proxy] = judged.size_check({d: values[:, valid] for d, values in own.items()})
    alive = [n for n in range(len(benchmark.architectures)) if n not in failed]
    whole = judge(tuple(alive))
    alive_rivals = {n: {d: own[d][alive] for d in own} for n, own in rivals.items()}
    return {
        "means": means,
        "comparison": comparison,
        "baselines": {name: whole.table(own) for name, own in alive_rivals.items()},
        "baseline_means": {name: whole.mean(own).row() for name, own in alive_rivals.items()},
        "size": size,
        "budgets": whole.budgets(),
        "pairs": whole.pairs,
        "chosen": _chosen(ranking, judge, scores),
        "choices_alone": _choices_alone(ranking, scores),
    }


def _chosen(ranking: Rank, judge: MakeJudge, scores: Mapping[str, Scores]) -> dict[str, Any]:
    """Which proxy some of the networks choose, and what it is worth on the others.

    Once by its tau, and once by that at equal size.
    """
    networks = len(ranking.benchmark.architectures)
    train, test = (tuple(part.tolist()) for part in split(networks, ranking.config.seed))
    known = {
        proxy: own
        for proxy, own in scores.items()
        if proxy not in COUNTS and len(_valid(np.concatenate(list(own.values())))) == networks
    }

    def means(part: tuple[int, ...], proxy: str) -> Worth:
        return judge(part).mean({d: values[:, part] for d, values in known[proxy].items()})

    trained = {proxy: means(train, proxy) for proxy in known}
    found: dict[str, Any] = {}
    for name in ("kendall", "given_size"):
        worths = {proxy: getattr(own, name)[0] for proxy, own in trained.items()}
        if finite := {proxy: value for proxy, value in worths.items() if np.isfinite(value)}:
            best = max(finite, key=lambda proxy: finite[proxy])
            found[name] = {"proxy": best, "train": finite[best], "test": means(test, best).row()}
    return {"train": len(train), "test": len(test), "by": found}


def _evolved_on(
    ranking: Rank, judge: MakeJudge, scores: Mapping[str, Scores]
) -> dict[str, dict[str, Any]]:
    """Return how many networks each proxy was evolved on, and how well it ranks the others."""
    found = {}
    for proxy, networks in ranking.evolved_on().items():
        own = scores[proxy]
        valid = _valid(np.concatenate(list(own.values())))
        others = tuple(sorted({*valid} - {*networks}))
        on_others = None
        if len(others) > 1:
            rest = {dataset: values[:, others] for dataset, values in own.items()}
            on_others = judge(others).mean(rest).row()
        found[proxy] = {"networks": len(networks), "others": len(others), "on_others": on_others}
    return found


def _choices_alone(ranking: Rank, scores: Mapping[str, Scores]) -> list[str]:
    """The proxies that are functions of the architecture's choices."""

    def of_choices(proxy: str) -> bool:
        if proxy in COUNTS:
            return True
        if proxy in ranking.proxies.trees and not statistics(ranking.proxies.trees[proxy]):
            return True
        own = np.stack(list(scores[proxy].values()))  # [datasets, seeds, networks]
        own = own[..., np.isfinite(own).all(axis=(0, 1))]
        several = own.shape[1] > 1 and own.shape[2] > 1
        return several and seed_share(np.moveaxis(own, 1, 0)) < SEED_SHARE

    return [proxy for proxy in scores if of_choices(proxy)]


def _told(record: Mapping[str, Any]) -> bool:
    """Whether a record is of the network, and not of the machine's lack of memory."""
    return not lacked_memory(record["failure"])


def _failed(records: Records) -> set[int]:
    """The networks that failed with any seed: they are left out of all proxies."""
    return {record["network"] for record in records if record["failure"]}


def _valid(scores: Floats) -> tuple[int, ...]:
    """The networks with all scores [seeds, networks]."""
    return tuple(np.flatnonzero(np.isfinite(scores).all(axis=0)).tolist())


def _left_out(
    records: Records, scores: Mapping[str, Mapping[str, Floats]]
) -> dict[str, dict[str, int]]:
    """How many networks have no score by a proxy on some dataset, for each reason."""
    failed = _failed(records)
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for proxy, own in scores.items():
        for values in own.values():
            for network in np.flatnonzero(~np.isfinite(values).all(axis=0)).tolist():
                found[proxy][network] = FAILED if network in failed else NOT_FINITE
    return {proxy: dict(Counter(reasons.values())) for proxy, reasons in found.items()}
