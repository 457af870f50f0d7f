"""Runs a search: from a configuration to the best architectures, everything kept in a folder."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from autoprox.benchmarks import BENCHMARKS, load_benchmark, require_data
from autoprox.errors import AutoproxError, ConfigError, nearest
from autoprox.files.atomic import atomic_file, json_line, write_json
from autoprox.files.json_lines import JSONLines, Record
from autoprox.files.sizes import Range, read_range, read_size, short, show_range
from autoprox.inputs.batches import batch_counts
from autoprox.inputs.classes import CLASSES
from autoprox.language import EVERY_STATISTIC
from autoprox.nas.evaluators import Evaluator, load_evaluator
from autoprox.nas.own_weights import OwnWeights
from autoprox.nas.proxy import SplitProxy
from autoprox.nas.searcher import Evaluated, Scored, Scorer, Searcher
from autoprox.nas.sliced_weights import SlicedWeights, require_slices
from autoprox.nas.strategies import STRATEGIES, SearchParameters, SearchStrategy
from autoprox.oneshot.supernet.subnets import read_entries
from autoprox.options import read_set
from autoprox.progress import Note, Progress
from autoprox.runs.folder import CANDIDATES, Run
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.limits import SizeLimits, matched
from autoprox.searchspaces.sampler import Sampler
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.tasks.base import (
    Task,
    batches_of,
    completed,
    digests,
    path_of,
    require_choice,
)
from autoprox.tasks.configurations import SearchConfig
from autoprox.tasks.estimate import Estimate
from autoprox.tasks.sized import size_summary, worth_of_evaluated
from autoprox.zoo.proxy_loading import resolve_proxy

EVALUATIONS = "evaluations.jsonl"
TOP = "top.json"
WEIGHTS = ("fresh", "inherited")
OBJECTIVES = ("score", "equal-size")


class Search(Task[SearchConfig]):
    """A search of architectures: the proxy, the limits, the strategy and who evaluates."""

    def __init__(self, config: SearchConfig) -> None:
        config = with_heads(config)
        self.space = get_space(str(config.space))
        self.strategy, self.parameters = _strategy(config)
        tree = resolve_proxy(str(config.proxy)).tree
        self.proxy = SplitProxy(tree, self.strategy.by_block)
        require_choice("weights", config.weights, WEIGHTS)
        require_choice("objective", config.objective, OBJECTIVES)
        super().__init__(
            completed(
                config,
                space=self.space.name,
                # As an expression: the file or run may be gone when the search is resumed.
                proxy=str(tree),
                device=resolve_device(config.device),
                set=self.parameters.model_dump(mode="json"),
            )
        )
        dataset, classes = str(config.dataset), config.classes or 0
        self.limits = SizeLimits(self.space, classes, *_ranges(config))
        self.evaluator = self._evaluator()
        if config.weights == "inherited" and config.backend != "local":
            raise ConfigError(
                "a backend other than local must have fresh weights to measure, but got inherited"
            )
        if config.weights == "inherited":
            require_slices(self.space)
        self._check_statistics()
        self.file_counts: list[Shortfall] = []
        self.only = self._only()
        self.sampler = Sampler(self.limits)
        if self.only is None:
            self.sampler.require()
        batches = batches_of(config, self.space, {dataset: classes}, config.seed)
        self.setting = Setting(batches, device=torch.device(self.config.device))

    @property
    def name(self) -> str:
        config = self.config
        return f"search-{self.space.name}-{config.strategy}-seed{config.seed}"

    @property
    def read(self) -> dict[str, str]:
        return digests(self.setting.batches)

    @property
    def counts(self) -> list[Shortfall]:
        return [*self.file_counts, *batch_counts(self.config.batch_size, self.setting.batches)]

    def scorer(self) -> Scorer:
        """What measures the candidates."""
        kinds: dict[str, Callable[..., Scorer]] = {"fresh": OwnWeights, "inherited": SlicedWeights}
        config = self.config
        make = kinds[config.weights]
        return make(self.proxy, self.space, self.setting, config.seed, self.crew)

    def _evaluator(self) -> Evaluator | None:
        config = self.config
        if config.evaluator is not None:
            data_dir = path_of(config.data_dir)
            return load_evaluator(
                config.evaluator,
                self.space,
                str(config.dataset),
                data_dir,
                seed=config.seed,
                device=config.device,
            )
        if self.strategy.evaluator:
            raise ConfigError(
                f"{config.strategy} must have an evaluator, a benchmark or MODULE:FUNCTION, "
                "but got none"
            )
        return None

    def _only(self) -> list[Architecture] | None:
        """The architectures of a file that are within the limits, if there is a file."""
        config = self.config
        if config.subnets is None:
            return None
        if config.strategy != "random":
            rule = "of subnets that are given, only random chooses"
            raise ConfigError(f"{rule}, but the strategy is {config.strategy}")
        entries = read_entries(Path(config.subnets), self.space)
        different = list(dict.fromkeys(entries))
        within = [architecture for architecture in different if self.limits.admit(architecture)]
        if not within:
            params = sorted(self.limits.sizes(a).params for a in different)
            rule = f"subnets must meet the limits, but none of the {len(different)} does"
            raise ConfigError(f"{rule}: they have {params[0]} to {params[-1]} parameters")
        file = config.subnets
        self.file_counts = [
            Shortfall("subnets", len(entries), len(different), f"of {file} are different"),
            Shortfall("different subnets", len(different), len(within), "are within the limits"),
        ]
        return within

    def _check_statistics(self) -> None:
        """A space may lack a domain: its networks then have no such layers."""
        with torch.device("meta"):
            network = self.space.network(self.space.largest(), classes=1)
        there = {domain for domain, _ in network.layers()}
        symbols: set[str] = set()
        self.proxy.tree.fold(lambda tree, _: symbols.add(tree.symbol))
        read = (EVERY_STATISTIC[symbol] for symbol in sorted(symbols) if symbol in EVERY_STATISTIC)
        for statistic in read:
            if statistic.domain in ("msa", "mlp") and statistic.domain not in there:
                raise ConfigError(
                    f"the proxy needs {statistic}, but the networks of {self.space.name} only "
                    f"have linear layers of {', '.join(sorted(there)) or 'no domain'}"
                )

    def estimate(self) -> Estimate | None:
        """From one candidate that is built twice: the first warms up.

        Slices of the largest network take nearly no time.
        """
        if self.config.weights == "inherited":
            return None
        rng, scorer, count = (
            random.Random(self.config.seed),
            self.scorer(),
            self.parameters.candidates,
        )
        if self.only is None:
            one, count = self.sampler.new(rng, ()), self.sampler.available(count)
        else:
            one, count = self.only[0], min(count, len(self.only))
        assert one is not None
        for _ in range(2):
            started = time.monotonic()
            scorer.measure([one], lambda outcome: None)
        work = count * (time.monotonic() - started) / self.crew.size
        return Estimate(count, 1, work)

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Run the strategy from its seed; what is on record isn't measured again."""
        started = time.monotonic()
        run.check_log()
        log = run.read_log()
        run.truncate_log(len(log))
        before = float(log[-1]["seconds"]) if log else 0.0
        total = self.parameters.candidates

        def seconds() -> float:
            return round(before + time.monotonic() - started, 3)

        invalid: int | None = None

        def on_candidate(searcher: Searcher) -> None:
            nonlocal invalid
            tried = len(searcher.candidates)
            new = searcher.candidates if invalid is None else searcher.candidates[-1:]
            invalid = (invalid or 0) + sum(bool(candidate.failure) for candidate in new)
            progress("search", tried, total, Note(tried=tried, invalid=invalid))

        def on_step(searcher: Searcher) -> None:
            if searcher.steps > len(log):
                run.log({**_step(searcher), "seconds": seconds()})

        searcher = Searcher(
            self.limits,
            self.proxy,
            self.scorer(),
            self.config.seed,
            evaluator=self.evaluator,
            given_size=self.config.objective == "equal-size",
            only=self.only,
            scored=Record(run.path / CANDIDATES, Scored),
            evaluated=Record(run.path / EVALUATIONS, Evaluated),
            on_candidate=on_candidate,
            on_step=on_step,
        )
        self.strategy.search(searcher, self.parameters)
        worth = self._evaluated(searcher)
        _write_scores(run.path / CANDIDATES, searcher)
        if self.evaluator is not None:
            _sort_evaluations(run.path / EVALUATIONS, searcher.asked)
        summary = {**self._summary(searcher, worth), "seconds": seconds()}
        write_json(run.path / TOP, summary["top"])
        return summary

    def _evaluated(self, searcher: Searcher) -> dict[str, Any]:
        """Ask the evaluator, if there is one, and return how well the proxy ranks by its values.

        If the strategy has no values, the best by the proxy are asked for until `top` have one.
        """
        if self.evaluator is None:
            return {}
        if not searcher.evaluated():
            left, best = self.config.top, iter(searcher.best(len(searcher.candidates)))
            while asked := list(islice(best, left)):
                searcher.evaluate(asked)
                left -= sum(candidate.value is not None for candidate in asked)
        return {"worth": worth_of_evaluated(searcher, self.config.seed)}

    def _found(self, searcher: Searcher, top: int) -> list[Shortfall]:
        """Compare the candidates and the best that were asked for with those that there are."""
        reason = "were scored until the strategy stopped"
        if searcher.exhausted:
            reason = "exist within the limits" if self.limits.ranges else "exist"
        valid = "have a value" if self.evaluator else "candidates have a score"
        scored = len(searcher.candidates)
        return [
            Shortfall("candidates", self.parameters.candidates, scored, reason),
            Shortfall("top", self.config.top, top, valid),
        ]

    def _summary(self, searcher: Searcher, worth: Mapping[str, Any]) -> dict[str, Any]:
        """The best by the evaluator where there is one, or else by the proxy, ranked among all."""
        config = self.config
        top = [
            {
                "arch": candidate.architecture.to_json()["choices"],
                **candidate.sizes._asdict(),
                "score": searcher.score_of(candidate),
                **({"value": candidate.value} if self.evaluator else {}),
                "candidate": candidate.number,
            }
            for candidate in searcher.evaluated()[: config.top] or searcher.best(config.top)
        ]
        [batch] = self.setting.batches.values()
        return {
            "space": config.space,
            "proxy": config.proxy,
            "strategy": config.strategy,
            "weights": config.weights,
            "objective": config.objective,
            "best": top[0],
            "top": top,
            "evaluations": len(searcher.candidates),
            "shortfalls": shortfalls(self._found(searcher, len(top))),
            "size": size_summary(searcher, [entry["params"] for entry in top]),
            **worth,
            "evaluator": config.evaluator,
            "evaluated": searcher.evaluations,
            "failed": searcher.failures(),
            "inputs": batch.source,
        }


def _step(searcher: Searcher) -> dict[str, Any]:
    """A line of the log."""
    [best], evaluated = searcher.best(1), searcher.evaluated()
    return {
        "step": searcher.steps,
        "candidates": len(searcher.candidates),
        "failed": sum(searcher.failures().values()),
        "best": best.number,
        "score": searcher.score_of(best),
        "value": evaluated[0].value if evaluated else None,
    }


def _strategy(config: SearchConfig) -> tuple[SearchStrategy, SearchParameters]:
    """Return the strategy and its options: those that are set, and the defaults of the others."""
    strategy = STRATEGIES.find(config.strategy)
    fields = strategy.settings.model_fields
    return strategy, strategy.settings(**read_set(config.strategy, fields, config.set or {}))


def _ranges(config: SearchConfig) -> tuple[Range, Range]:
    """The parameters and FLOPs that candidates may have."""
    params, flops = read_range("params", config.params), read_range("flops", config.flops)
    size = read_size("match_size", config.match_size)
    if size is None:
        return params, flops
    if params != (None, None):
        raise ConfigError(
            "either params or match_size must be given, "
            f"but got both, {show_range(params)} and {short(size)}"
        )
    return matched(size), flops


def _write_scores(path: Path, searcher: Searcher) -> None:
    """Add its score, among all of them, to the line of each candidate."""
    lines, count = JSONLines(path), len(searcher.candidates)
    texts = lines.lines()
    if len(texts) > count:
        raise lines.error(count + 1, f"must not be there: the search has {count} candidates")
    with atomic_file(path) as file:
        for candidate, text in zip(searcher.candidates, texts, strict=True):
            line = lines.parse(candidate.number + 1, text)
            line["score"] = None if candidate.failure else searcher.score_of(candidate)
            file.write(json_line(line))


def _sort_evaluations(path: Path, asked: Sequence[int]) -> None:
    """Write the lines in the order in which they were asked for, however they arrived."""
    lines = JSONLines(path)
    answered = enumerate(lines.lines()[: len(asked)], start=1)
    texts = {lines.parse(number, text)["candidate"]: text for number, text in answered}
    if list(texts) != list(asked):
        with atomic_file(path) as file:
            for number in asked:
                file.write(texts[number] + b"\n")


def with_heads(config: SearchConfig) -> SearchConfig:
    """With the space, the dataset and its classes filled in: those of a benchmark if it is given.

    Where there is none, the dataset is ImageNet.
    """
    dataset, data_dir = config.dataset, path_of(config.data_dir)
    require_data(data_dir)
    known: Mapping[str, int] = {}
    if config.benchmark is not None and None in (config.space, dataset, config.classes):
        table = load_benchmark(config.benchmark, space=config.space, data_dir=data_dir)
        config, known = completed(config, space=table.space), table.classes
        dataset = table.datasets[0] if dataset is None else dataset
    if config.space is None:
        raise ConfigError("a search needs space, or a benchmark that has one, but got none")
    dataset = "imagenet" if dataset is None else dataset
    classes = config.classes or known.get(dataset) or classes_of(dataset)
    return completed(config, dataset=dataset, classes=classes)


def classes_of(dataset: str) -> int:
    """The number of classes of a dataset that is known, from a benchmark perhaps."""
    of_benchmarks = {d: n for source in BENCHMARKS.values() for d, n in source.classes.items()}
    known = {**of_benchmarks, **CLASSES}
    if dataset not in known:
        raise AutoproxError(f"unknown dataset {dataset!r}{nearest(dataset, known)}")
    return known[dataset]
