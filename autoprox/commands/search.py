"""The command `search`: find the best architectures of a space by a proxy, without training."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from autoprox.benchmarks import BENCHMARKS, load_benchmark, require_data_folder
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import TOP, SearchConfig
from autoprox.configurations.shared_options import (
    FRESH,
    INHERITED,
    SHARED,
    completed,
    path_of,
    require_choice,
)
from autoprox.declared_options import read_set
from autoprox.errors import AutoproxError, ConfigError, nearest
from autoprox.evaluation.configured_inputs import input_digests, load_configured_batches
from autoprox.evaluation.time_estimate import TimeEstimate
from autoprox.evolution.prior_knowledge import ready_made_proxy
from autoprox.files.atomic_writes import atomic_file, json_line, write_json
from autoprox.files.human_readable_sizes import (
    SizeRange,
    format_range,
    format_with_unit,
    parse_range,
    parse_size,
)
from autoprox.files.json_documents import JSONDocument
from autoprox.files.json_lines import JSONLinesFile, ReplayJournal
from autoprox.inputs.batch_loading import batch_shortfalls
from autoprox.inputs.dataset_class_counts import DATASET_CLASSES
from autoprox.language import EVERY_STATISTIC
from autoprox.nas.architecture_evaluators import ArchitectureEvaluator, load_evaluator
from autoprox.nas.candidate_measurement import (
    OwnWeightScorer,
    PredictorSearchProxy,
    SearchProxy,
    SlicedWeightScorer,
    load_search_proxy,
)
from autoprox.nas.searcher import Candidate, CandidateScorer, EvaluatedLine, ScoredLine, Searcher
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES
from autoprox.oneshot.supernet.subnet_samplers import read_subnet_entries
from autoprox.progress import Note, Progress
from autoprox.runs.folder import CANDIDATES, Run
from autoprox.runs.summary import Choices, Summary
from autoprox.scoring.bootstrap import (
    BootstrapSample,
    MetricDifferences,
    Number,
    RankingMetrics,
    bootstrap_metrics,
    count_near_size_pairs,
    finite_or_none,
)
from autoprox.scoring.correlations import spearman
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SIZE_TOLERANCE, SizeLimits, matching_size_range
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import MeasurementSetting, resolve_device
from autoprox.statistics.sliced_networks import require_sliceable_space
from autoprox.zoo.proxy_loading import resolve_proxy

EVALUATIONS_FILE, TOP_FILE = "evaluations.jsonl", "top.json"
SCORERS: Mapping[str, Callable[..., CandidateScorer]] = {
    FRESH: OwnWeightScorer,
    SHARED: partial(OwnWeightScorer, shared=True),
    INHERITED: SlicedWeightScorer,
}
SEARCH_OBJECTIVES = ("score", "size-adjusted")
MIN_EVALUATED = 10  # candidates for correlations with the evaluator's values


class CandidateLine(JSONDocument):
    """A line of `candidates.jsonl`: an architecture that a search scored."""

    arch: Choices
    params: int
    flops: int
    terms: list[Number]
    blocks: list[list[Number]] | None = None
    failure: str | None
    score: Number


class CandidateSizes(JSONDocument):
    """A candidate with its sizes and score."""

    candidate: int
    params: int
    flops: int
    score: Number


class TopCandidate(CandidateSizes):
    """One of the best candidates; without an evaluator it has no value."""

    arch: Choices
    value: Number


class SearchSizeCheck(JSONDocument):
    """How closely the scores of a search follow size."""

    spearman: Number
    candidates: int
    largest: CandidateSizes
    pick_is_largest: bool
    near_largest: int
    top: int


class CandidateRegret(JSONDocument):
    """A candidate's value, and how much worse it is than the best value."""

    candidate: int
    value: float
    regret: float


class PickEvaluation(JSONDocument):
    """The evaluator's values of the proxy's pick and of the largest candidate, and how well the
    proxy, parameters and FLOPs rank the candidates by its values.
    """

    pick: CandidateRegret | None
    largest: CandidateRegret | None
    networks: int
    pairs: int
    means: dict[str, RankingMetrics]
    comparison: dict[str, MetricDifferences]


class SearchSummary(Summary):
    """The best architectures of a search."""

    space: str
    proxy: str
    strategy: str
    weights: str
    evolved_with: Annotated[
        str | None,
        Field(description="The weights that the proxy was evolved with, if they are known."),
    ] = None
    objective: str
    best: TopCandidate
    top: tuple[TopCandidate, ...]
    evaluations: int
    size: SearchSizeCheck
    evaluator_check: PickEvaluation | None
    evaluator: str | None
    evaluated: int
    failed: dict[str, int]
    inputs: str
    found_on: str | None = None
    seconds: float


class SearchTask(CommandTask[SearchConfig, SearchSummary]):
    """A search: the proxy, the limits, the strategy and the evaluator."""

    summary = SearchSummary

    def __init__(self, config: SearchConfig) -> None:
        config = fill_space_and_classes(config)
        self.space = get_space(str(config.space))
        self.strategy = SEARCH_STRATEGIES.find(config.strategy)
        options = self.strategy.settings.model_fields
        self.parameters = self.strategy.settings(
            **read_set(config.strategy, options, config.set or {})
        )
        self.ready_made = None if config.proxy else ready_made_proxy(self.space)
        source = str(config.proxy or self.ready_made)
        self.proxy = load_search_proxy(source, str(config.dataset), self.strategy.by_block)
        found_on, evolved_with = config.found_on, config.evolved_with
        if isinstance(self.proxy, PredictorSearchProxy):
            self.proxy.predictor.require_space(self.space.name)
        if isinstance(self.proxy, SearchProxy):
            loaded = resolve_proxy(source)
            source = loaded.text
            if loaded.found:
                found_on, evolved_with = loaded.found.space, loaded.found.weights
        elif config.weights == "inherited":
            rule = "weights that are inherited must have an expression as the proxy"
            raise ConfigError(f"{rule}, but {source} is a function of whole networks")
        require_choice("weights", config.weights, SCORERS)
        require_choice("objective", config.objective, SEARCH_OBJECTIVES)
        config = completed(
            config,
            space=self.space.name,
            proxy=source,  # the file or run may be gone when the search is resumed
            evolved_with=evolved_with,
            device=resolve_device(config.device),
            set=self.parameters.model_dump(mode="json"),
            found_on=found_on,
        )
        super().__init__(config)
        self.top = config.top or min(TOP, self.parameters.candidates)
        dataset, classes = str(config.dataset), config.classes or 0
        self.limits = SizeLimits(self.space, classes, *size_ranges(config))
        self.evaluator = self._evaluator()
        if config.weights == INHERITED and config.backend != "local":
            raise ConfigError(
                "a backend other than local must have fresh or shared weights to measure, "
                "but got inherited"
            )
        if config.weights == INHERITED:
            require_sliceable_space(self.space)
        self._require_layers()
        self.file_counts: list[Shortfall] = []
        self.only = None if config.subnets is None else self._subnets(config.subnets)
        self.sampler = ArchitectureSampler(self.limits)
        if self.only is None:
            self.sampler.require()
        batches = load_configured_batches(config, self.space, {dataset: classes}, config.seed)
        self.setting = MeasurementSetting(batches, device=torch.device(config.device))

    @property
    def name(self) -> str:
        config = self.config
        return f"search-{self.space.name}-{config.strategy}-seed{config.seed}"

    @property
    def read(self) -> dict[str, str]:
        batches = self.setting.batches
        if isinstance(self.proxy, PredictorSearchProxy):
            return input_digests(batches, predictor=self.proxy.predictor.digest)
        return input_digests(batches)

    @property
    def chosen(self) -> dict[str, str]:
        return {"proxy": self.ready_made} if self.ready_made else {}

    @property
    def counts(self) -> list[Shortfall]:
        return [*self.file_counts, *batch_shortfalls(self.config.batch_size, self.setting.batches)]

    def scorer(self) -> CandidateScorer:
        """Return what measures the candidates."""
        config = self.config
        make = SCORERS[config.weights]
        return make(self.proxy, self.space, self.setting, config.seed, self.pool)

    def _evaluator(self) -> ArchitectureEvaluator | None:
        config = self.config
        if config.evaluator is not None:
            return load_evaluator(
                config.evaluator,
                self.space,
                str(config.dataset),
                path_of(config.data_dir),
                seed=config.seed,
                device=config.device,
            )
        if self.strategy.evaluator:
            raise ConfigError(
                f"{config.strategy} must have an evaluator, a benchmark or MODULE:FUNCTION, "
                "but got none"
            )
        return None

    def _subnets(self, file: object) -> list[Architecture]:
        """Return the architectures of a file that are within the limits."""
        if self.config.strategy != "random":
            rule = "of subnets that are given, only random chooses"
            raise ConfigError(f"{rule}, but the strategy is {self.config.strategy}")
        entries = read_subnet_entries(Path(str(file)), self.space)
        different = list(dict.fromkeys(entries))
        within = [architecture for architecture in different if self.limits.admit(architecture)]
        if not within:
            params = sorted(self.limits.sizes(a).params for a in different)
            rule = f"subnets must meet the limits, but none of the {len(different)} does"
            raise ConfigError(f"{rule}: they have {params[0]} to {params[-1]} parameters")
        self.file_counts = [
            Shortfall("subnets", len(entries), len(different), f"of {file} are different"),
            Shortfall("different subnets", len(different), len(within), "are within the limits"),
        ]
        return within

    def _require_layers(self) -> None:
        """Raise ConfigError if the proxy reads layers that the space's networks don't have."""
        if not isinstance(self.proxy, SearchProxy):
            return
        with torch.device("meta"):
            network = self.space.network(self.space.largest(), classes=1)
        domains = {domain for domain, _ in network.layers()}
        symbols: set[str] = set()
        self.proxy.tree.fold(lambda tree, _: symbols.add(tree.symbol))
        for symbol in sorted(symbols & EVERY_STATISTIC.keys()):
            statistic = EVERY_STATISTIC[symbol]
            if statistic.domain in ("msa", "mlp") and statistic.domain not in domains:
                raise ConfigError(
                    f"the proxy needs {statistic}, but the networks of {self.space.name} only "
                    f"have linear layers of {', '.join(sorted(domains)) or 'no domain'}"
                )

    def estimate(self) -> TimeEstimate | None:
        """Estimate the time from one candidate, built twice because the first time warms up.

        Slices of the largest network take nearly no time.
        """
        if self.config.weights == INHERITED:
            return None
        rng, scorer = random.Random(self.config.seed), self.scorer()
        count = self.parameters.candidates
        if self.only is None:
            one, count = self.sampler.new(rng, ()), self.sampler.available(count)
        else:
            one, count = self.only[0], min(count, len(self.only))
        assert one is not None
        for _ in range(2):
            started = time.monotonic()
            scorer.measure([one], lambda outcome: None)
        work = count * (time.monotonic() - started) / self.pool.size
        return TimeEstimate(networks=count, datasets=1, seconds=work)

    def work(self, run: Run, progress: Progress) -> SearchSummary:
        """Run the strategy from its seed; recorded candidates aren't measured again."""
        started = time.monotonic()
        run.check_log()
        log = run.read_log()
        run.truncate_log(len(log))
        before = float(log[-1]["seconds"]) if log else 0.0

        def seconds() -> float:
            return round(before + time.monotonic() - started, 3)

        def on_candidate(searcher: Searcher) -> None:
            tried, invalid = len(searcher.candidates), sum(searcher.failures().values())
            note = Note(tried=tried, invalid=invalid)
            progress("search", tried, self.parameters.candidates, note)

        def on_step(searcher: Searcher) -> None:
            if searcher.steps > len(log):
                run.log({**step_record(searcher), "seconds": seconds()})

        searcher = Searcher(
            self.limits,
            self.proxy,
            self.scorer(),
            self.config.seed,
            evaluator=self.evaluator,
            adjusts_for_size=self.config.objective == "size-adjusted",
            only=self.only,
            scored=ReplayJournal(run.path / CANDIDATES, ScoredLine),
            evaluated=ReplayJournal(run.path / EVALUATIONS_FILE, EvaluatedLine),
            on_candidate=on_candidate,
            on_step=on_step,
        )
        self.strategy.search(searcher, self.parameters)
        check = None
        if self.evaluator is not None:
            self._evaluate_best(searcher)
            check = compare_pick_with_largest(searcher, self.config.seed)
            sort_evaluations(run.path / EVALUATIONS_FILE, searcher.asked)
        add_scores(run.path / CANDIDATES, searcher)
        best = searcher.evaluated()[: self.top] or searcher.best(self.top)
        top = tuple(
            TopCandidate(
                arch=candidate.architecture.to_json()["choices"],
                **dict(candidate_sizes(searcher, candidate)),
                value=candidate.value,
            )
            for candidate in best
        )
        write_json(run.path / TOP_FILE, [own.model_dump(mode="json") for own in top])
        [batch] = self.setting.batches.values()
        return SearchSummary(
            space=self.space.name,
            proxy=str(self.config.proxy),
            strategy=self.config.strategy,
            weights=self.config.weights,
            evolved_with=self.config.evolved_with,
            objective=self.config.objective,
            best=top[0],
            top=top,
            evaluations=len(searcher.candidates),
            shortfalls=unmet(self._found(searcher, len(top))),
            size=check_scores_against_size(searcher, best),
            evaluator_check=check,
            evaluator=self.config.evaluator,
            evaluated=searcher.evaluations,
            failed=searcher.failures(),
            inputs=batch.source,
            found_on=self.config.found_on,
            seconds=seconds(),
        )

    def _evaluate_best(self, searcher: Searcher) -> None:
        """Evaluate the best by the proxy until `top` have a value, unless the strategy has any."""
        if not searcher.evaluated():
            left, best = self.top, iter(searcher.best(len(searcher.candidates)))
            while asked := list(islice(best, left)):
                searcher.evaluate(asked)
                left -= sum(candidate.value is not None for candidate in asked)

    def _found(self, searcher: Searcher, top: int) -> list[Shortfall]:
        """Compare the numbers of candidates and of the best with those that were asked for."""
        reason = "were scored until the strategy stopped"
        if searcher.exhausted:
            reason = "exist within the limits" if self.limits.ranges else "exist"
        valid = "have a value" if self.evaluator else "candidates have a score"
        scored = len(searcher.candidates)
        return [
            Shortfall("candidates", self.parameters.candidates, scored, reason),
            Shortfall("top", self.top, top, valid),
        ]


def fill_space_and_classes(config: SearchConfig) -> SearchConfig:
    """Fill in the space, the dataset and its classes: those of the benchmark, or of the space."""
    dataset, data_dir = config.dataset, path_of(config.data_dir)
    require_data_folder(data_dir)
    known: Mapping[str, int] = {}
    if config.benchmark is not None and None in (config.space, dataset, config.classes):
        table = load_benchmark(config.benchmark, space=config.space, data_dir=data_dir)
        config, known = completed(config, space=table.space), table.classes
        dataset = table.datasets[0] if dataset is None else dataset
    if config.space is None:
        raise ConfigError("a search needs space, or a benchmark that has one, but got none")
    classes = config.classes
    if dataset is None:
        classes = classes or get_space(config.space).default_classes
        dataset = "imagenet" if classes == DATASET_CLASSES["imagenet"] else "images"
    classes = classes or known.get(dataset) or dataset_class_count(dataset)
    return completed(config, dataset=dataset, classes=classes)


def dataset_class_count(dataset: str) -> int:
    """Return the number of classes of a dataset that is known, also from the benchmarks."""
    of_benchmarks = {d: n for source in BENCHMARKS.values() for d, n in source.classes.items()}
    known = {**of_benchmarks, **DATASET_CLASSES}
    if dataset not in known:
        raise AutoproxError(f"unknown dataset {dataset!r}{nearest(dataset, known)}")
    return known[dataset]


def size_ranges(config: SearchConfig) -> tuple[SizeRange, SizeRange]:
    """Return the parameters and the FLOPs that candidates may have."""
    params, flops = parse_range("params", config.params), parse_range("flops", config.flops)
    size = parse_size("match_size", config.match_size)
    if size is None:
        return params, flops
    if params != (None, None):
        raise ConfigError(
            "either params or match_size must be given, "
            f"but got both, {format_range(params)} and {format_with_unit(size)}"
        )
    return matching_size_range(size), flops


def step_record(searcher: Searcher) -> dict[str, int | float | None]:
    """Return a line of the log."""
    [best], evaluated = searcher.best(1), searcher.evaluated()
    return {
        "step": searcher.steps,
        "candidates": len(searcher.candidates),
        "failed": sum(searcher.failures().values()),
        "best": best.number,
        "score": searcher.score_of(best),
        "value": evaluated[0].value if evaluated else None,
    }


def add_scores(path: Path, searcher: Searcher) -> None:
    """Add its score, ranked among all candidates, to the line of each candidate."""
    lines, count = JSONLinesFile(path), len(searcher.candidates)
    texts = lines.lines()
    if len(texts) > count:
        raise lines.error(count + 1, f"must not be there: the search has {count} candidates")
    with atomic_file(path) as file:
        for candidate, text in zip(searcher.candidates, texts, strict=True):
            line = lines.parse(candidate.number + 1, text)
            line["score"] = None if candidate.failure else searcher.score_of(candidate)
            file.write(json_line(line))


def sort_evaluations(path: Path, asked: Sequence[int]) -> None:
    """Write the lines in the order in which they were asked for, however they arrived."""
    lines = JSONLinesFile(path)
    answered = enumerate(lines.lines()[: len(asked)], start=1)
    texts = {lines.parse(number, text)["candidate"]: text for number, text in answered}
    if list(texts) != list(asked):
        with atomic_file(path) as file:
            file.writelines(texts[number] + b"\n" for number in asked)


def candidate_sizes(searcher: Searcher, candidate: Candidate) -> CandidateSizes:
    """Return a candidate's number, sizes and score."""
    score = searcher.score_of(candidate)
    return CandidateSizes(candidate=candidate.number, score=score, **candidate.sizes._asdict())


def check_scores_against_size(searcher: Searcher, top: Sequence[Candidate]) -> SearchSizeCheck:
    """Check how closely scores follow size, and compare the best with the largest candidate."""
    ranked, largest = searcher.ranked(), searcher.largest()
    params = [float(candidate.sizes.params) for candidate in ranked]
    scores = [searcher.scores()[candidate.number] for candidate in ranked]
    near = (1 - SIZE_TOLERANCE) * largest.sizes.params
    return SearchSizeCheck(
        spearman=finite_or_none(spearman(scores, params)),
        candidates=len(ranked),
        largest=candidate_sizes(searcher, largest),
        pick_is_largest=top[0].sizes.params == largest.sizes.params,
        near_largest=sum(own.sizes.params >= near for own in top),
        top=len(top),
    )


def compare_pick_with_largest(searcher: Searcher, seed: int) -> PickEvaluation:
    """Compare the proxy's pick with the largest candidate, which is evaluated for this, and the
    proxy's scores with sizes on the candidates that the strategy evaluated.

    Regret is the best value less a candidate's own, with the sign of a value that is to be high.
    """
    sign = -1.0 if searcher.evaluator and searcher.evaluator.lower_is_better else 1.0
    evaluated = [c for c in searcher.ranked() if c.value is not None]
    pick, largest = evaluated[0] if evaluated else None, searcher.largest()
    searcher.evaluate([largest])
    known = [c for c in (*evaluated, largest) if c.value is not None]
    best = max((sign * (c.value or 0.0) for c in known), default=None)

    def regret(candidate: Candidate | None) -> CandidateRegret | None:
        if candidate is None or candidate.value is None or best is None:
            return None
        value = candidate.value
        return CandidateRegret(candidate=candidate.number, value=value, regret=best - sign * value)

    scored = [c for c in evaluated if searcher.score_of(c) is not None]
    pairs, metrics = 0, {}
    if len(scored) >= MIN_EVALUATED:
        truth = np.array([sign * (c.value or 0.0) for c in scored])
        params = np.array([float(c.sizes.params) for c in scored])
        columns = {
            "proxy": np.array([searcher.scores()[c.number] for c in scored]),
            "params": params,
            "flops": np.array([float(c.sizes.flops) for c in scored]),
        }
        sample, pairs = BootstrapSample(len(scored), seed), count_near_size_pairs(params)
        metrics = {n: bootstrap_metrics(own, truth, params, sample) for n, own in columns.items()}
    return PickEvaluation(
        pick=regret(pick),
        largest=regret(largest),
        networks=len(scored),
        pairs=pairs,
        means={name: own.summary() for name, own in metrics.items()},
        comparison={
            name: metrics["proxy"].minus(own) for name, own in metrics.items() if name != "proxy"
        },
    )
