"""Ranks proxies side by side: each of them on every network of a benchmark, over several seeds."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.evaluator import Engine
from autoprox.errors import ConfigError, nearest, one_line
from autoprox.files.atomic import write_text
from autoprox.language import Tree, require_network
from autoprox.parallel.threads import run_threads
from autoprox.progress import Progress
from autoprox.report.ranking import as_csv, as_markdown
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import CORRELATIONS, Floats, bootstrap_interval
from autoprox.searchspaces import TransformerNetwork, get_space
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.statistics.networks import space_networks
from autoprox.statistics.sources import FAILURES, StreamedMatrices
from autoprox.tasks.base import Task, batches_of, benchmark_of, completed
from autoprox.tasks.configurations import RankConfig
from autoprox.zoo.expressions import PROXIES
from autoprox.zoo.functions import MEASURES, measure_all
from autoprox.zoo.loading import load
from autoprox.zoo.published import published

COUNTS = ("params", "flops")
FAILED, NOT_FINITE = "network failed", "not finite"
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class Rank(Task[RankConfig]):
    """The proxies to rank, and the networks of a benchmark to measure them on."""

    def __init__(self, config: RankConfig) -> None:
        self.benchmark = benchmark_of(config)
        self.space = get_space(self.benchmark.space)
        names = named_proxies(config.proxies)
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
        self.trees = {
            name: require_network(load(name).tree)
            for name in names
            if name not in COUNTS and name not in MEASURES
        }
        self.measures = [name for name in names if name in MEASURES]
        self.terms = list(dict.fromkeys(t for tree in self.trees.values() for t in terms_of(tree)))
        self.setting(config.seed)

    @property
    def name(self) -> str:
        return f"rank-{self.benchmark.name}-{self.benchmark.space}"

    def setting(self, seed: int) -> Setting:
        """How networks are measured with one of the seeds, which also draws the noise."""
        batches = batches_of(self.config, self.space, self.benchmark.classes, seed)
        return Setting(batches, device=torch.device(self.config.device))

    def seeds(self) -> range:
        """The seeds, from the configured one on."""
        return range(self.config.seed, self.config.seed + self.config.seeds)

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Measure; the log has a line for each network and seed, which isn't measured again."""
        records = run.read_log()
        run.truncate_log(len(records))
        known = {(record["seed"], record["network"]) for record in records}
        networks = range(len(self.benchmark.architectures))
        total = len(networks) * self.config.seeds
        progress("measure", len(records), total, "")
        for seed in self.seeds():
            todo = [network for network in networks if (seed, network) not in known]
            for record in measured_networks(self, seed, todo):
                run.log(record)
                records.append(record)
                progress("measure", len(records), total, "")
        summary = summarise(self, records)
        for suffix, text in (("csv", as_csv(summary["rows"])), ("md", as_markdown(summary))):
            write_text(run.path / f"table.{suffix}", text)
        return summary


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


def measured_networks(
    ranking: Rank, seed: int, networks: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """What is asked of each network, a few at a time, so that little is lost by a kill."""
    setting, workers = ranking.setting(seed), ranking.config.workers
    for first in range(0, len(networks), 2 * workers):
        chunk, started = networks[first : first + 2 * workers], time.monotonic()
        architectures = [ranking.benchmark.architectures[n] for n in chunk]
        networks_ = space_networks(ranking.space, architectures, seed)
        # A proxy is ranked on the networks for which it has a value, however few.
        source = StreamedMatrices(setting, networks_, workers, max_failed=1.0)
        values = Engine(source).evaluate(ranking.terms).values  # [terms, datasets, networks]
        found: list[dict[str, dict[str, float]]] = [{} for _ in chunk]
        names = list(map(str, ranking.terms))
        for i, own in enumerate(found):
            for d, dataset in enumerate(source.datasets):
                own[dataset] = dict(zip(names, values[:, d, i].tolist(), strict=True))
        measure = partial(_run_measures, ranking, source, seed)
        run_threads(workers, [partial(measure, i, found[i]) for i in source.alive])
        seconds = (time.monotonic() - started) / len(chunk)
        for i, network in enumerate(chunk):
            yield {
                "seed": seed,
                "network": network,
                "failure": source.failures.get(i),
                "values": {
                    d: {k: _plain(v) for k, v in own.items()} for d, own in found[i].items()
                },
                "seconds": round(seconds, 3),
            }


def _run_measures(
    ranking: Rank,
    source: StreamedMatrices,
    seed: int,
    index: int,
    found: dict[str, dict[str, float]],
) -> None:
    """Add the measures that aren't expressions: one network, with each dataset's head."""
    if not ranking.measures:
        return
    setting = source.setting
    try:
        prepare = source.networks[index].build(setting.device)
        for dataset, batch in setting.batches.items():
            network = cast(TransformerNetwork, prepare(batch.classes))  # as those of spaces are
            known = _known(setting, dataset, found)
            names = [name for name in ranking.measures if name not in known]
            found[dataset] |= known | measure_all(network, batch, names, seed)
    except FAILURES as error:
        source.failures[index] = one_line(error)


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


def summarise(ranking: Rank, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row for each proxy and dataset: the best mean of Kendall's tau over the seeds first."""
    benchmark, rows = ranking.benchmark, []
    left_out: dict[str, dict[int, str]] = defaultdict(dict)  # proxy -> network -> reason
    failed = {record["network"] for record in records if record["failure"]}
    for dataset, truth in benchmark.scores.items():
        own = []
        for proxy in ranking.config.proxies:
            scores = proxy_scores(ranking, records, proxy, dataset)  # [seeds, networks]
            own.append(_row(ranking, proxy, dataset, scores, truth))
            for network in np.flatnonzero(~np.isfinite(scores).all(axis=0)).tolist():
                left_out[proxy][network] = FAILED if network in failed else NOT_FINITE
        rows += sorted(own, key=lambda row: 2 if row["kendall"] is None else -row["kendall"])
    return {
        "rows": rows,
        "invalid": {proxy: dict(Counter(own.values())) for proxy, own in left_out.items()},
        "benchmark": benchmark.source,
        "networks": len(benchmark.architectures),
        "seeds": ranking.config.seeds,
        "seconds": round(sum(record["seconds"] for record in records), 3),
    }


def proxy_scores(
    ranking: Rank, records: Sequence[Mapping[str, Any]], proxy: str, dataset: str
) -> Floats:
    """[seeds, networks], nan where a proxy has no value."""
    architectures = ranking.benchmark.architectures
    shape = (ranking.config.seeds, len(architectures))
    if proxy in COUNTS:
        count = getattr(ranking.space, proxy)
        classes = ranking.benchmark.classes[dataset]
        return np.broadcast_to([float(count(a, classes)) for a in architectures], shape)
    tree = ranking.trees.get(proxy)
    columns = [proxy] if tree is None else list(map(str, terms_of(tree)))
    values = np.full((len(columns), *shape), np.nan)
    for record in records:
        known = record["values"].get(dataset, {})
        place = (slice(None), record["seed"] - ranking.config.seed, record["network"])
        values[place] = [np.nan if known.get(c) is None else known[c] for c in columns]
    return values[0] if tree is None else _combined(tree, values)


def _combined(tree: Tree, values: Floats) -> Floats:
    """[seeds, networks] of [terms, seeds, networks]; `rank` compares the networks with a value."""
    scores = np.full(values.shape[1:], np.nan)
    for seed, own in enumerate(np.moveaxis(values, 1, 0)):
        valid = np.isfinite(own).all(axis=0)
        scores[seed, valid] = compare(tree, dict(zip(terms_of(tree), own[:, valid], strict=True)))
    return scores


def _row(ranking: Rank, proxy: str, dataset: str, scores: Floats, truth: Floats) -> dict[str, Any]:
    benchmark, seed = ranking.benchmark, ranking.config.seed
    valid = np.isfinite(scores).all(axis=0)
    row: dict[str, Any] = {"proxy": proxy, "dataset": dataset, "std": {}, "interval": {}}
    for name, correlation in CORRELATIONS.items():
        each = correlation(scores[:, valid], truth[valid]) if valid.sum() > 1 else np.array(np.nan)

        def mean(left: ArrayLike, right: ArrayLike, c: Any = correlation) -> Floats:
            return np.asarray(c(np.moveaxis(np.asarray(left), -1, 0), right).mean(axis=0))

        row[name] = _plain(each.mean())
        row["std"][name] = _plain(each.std())
        row["interval"][name] = (
            [None, None]
            if row[name] is None
            else list(bootstrap_interval(mean, scores[:, valid].T, truth[valid], seed))
        )
    row["invalid"] = int((~valid).sum())
    figures = published(benchmark.name, benchmark.space, benchmark.label, dataset, proxy)
    row["published"] = figures._asdict()
    return row


def _plain(value: Any) -> float | None:
    """JSON has no word for what isn't finite."""
    return float(value) if np.isfinite(value) else None
