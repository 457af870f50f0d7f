"""Discovers a proxy: from a benchmark and a seed to a formula, and what it is worth on the rest."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from deap import base

from autoprox.engine.blocks import Block
from autoprox.engine.evaluator import Engine
from autoprox.errors import ConfigError
from autoprox.evolution import (
    METRICS,
    STRATEGIES,
    Form,
    Individual,
    State,
    evolve,
    make_toolbox,
    require_formula,
)
from autoprox.evolution.two_inputs import TwoInputs
from autoprox.export import pretty
from autoprox.files.folders import make_writable, room_of
from autoprox.inputs.batch_loading import batch_shortfalls
from autoprox.language import (
    EVERY_STATISTIC,
    STATISTICS,
    Statistic,
    Tree,
    digest,
    parse,
    statistics,
)
from autoprox.language.grammar import Grammar
from autoprox.parallel.crew import Crew
from autoprox.parallel.threads import one_thread, run_threads
from autoprox.progress import Note, Progress, silent
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import TIES, Indices, jcm, split
from autoprox.scoring.fitness import taus as fitness
from autoprox.scoring.resampling import FEWEST_PAIRS
from autoprox.scoring.tables import Judge, baselines
from autoprox.searchspaces import get_space
from autoprox.shortfalls import Shortfall
from autoprox.statistics.cached import CachedMatrices
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.statistics.networks import SpaceNetwork, space_networks
from autoprox.statistics.sources import measured_alone
from autoprox.tasks.base import (
    Task,
    batches_of,
    benchmark_of,
    completed,
    digests,
    require_choice,
)
from autoprox.tasks.cache import kept_of
from autoprox.tasks.checkpoint import checkpoint, restored
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.counts import evolution_counts
from autoprox.tasks.estimate import (
    PART,
    Estimate,
    seconds_of_formulas,
    spread,
)
from autoprox.tasks.evolved_on import split_record
from autoprox.tasks.proxies import COUNTS, Proxies, named_proxies
from autoprox.tasks.trial import Ground, Trial
from autoprox.tasks.whole import SEEDED, Whole
from autoprox.tasks.zoo import PublishedProxies, Zoo

THINNED_WEIGHTS = 300_000  # of a network, on average, while evolution compares it with others
WARM = 1.0  # seconds for which networks are measured by each worker, to estimate from them
FEWER = 0.85  # the time for published proxies and a formula over that with all statistics
FIRST = 1.25  # the time that a thread takes for its first network over that for the next ones
SAMPLE = 21  # formulas by which the time of an evolution is estimated
TYPICAL = ("sum(effective_rank({}))", "sum(l1_norm(gelu({})))", "sum(std(exp(min_max({}))))")
EVOLVED = 0.9  # the time of an evolved formula over that of a typical one
RIVALS = 4  # the formula, the ridge regression and the two best published proxies
FORMS: Mapping[str, Callable[[Grammar], Form]] = {"free": lambda own: own, "two-inputs": TwoInputs}


class Evolve(Task[EvolveConfig]):
    """The discovery of a proxy on the training part of a benchmark's networks."""

    def __init__(self, config: EvolveConfig) -> None:
        self.benchmark = benchmark_of(config)
        jcm(np.zeros(len(self.benchmark.datasets)), config.weights)
        self.space = get_space(self.benchmark.space)
        self.strategy = STRATEGIES.find(config.strategy)
        self.parameters = self.strategy.configured(config.strategy, config, config.set or {})
        require_choice("ties", config.ties, TIES)
        require_choice("objective", config.objective, METRICS)
        super().__init__(
            completed(
                config,
                benchmark=config.benchmark or self.benchmark.name,
                space=self.benchmark.space,
                datasets=self.benchmark.datasets,
                label=self.benchmark.label,
                statistics=tuple(config.statistics or STATISTICS),
                zoo=_zoo(config.zoo),
                thin=config.thin or self._thin(),
                device=resolve_device(config.device),
                set=self.parameters.model_dump(mode="json", include=set(self.strategy.own)) or None,
            )
        )
        self.grammar = Grammar(
            self.config.statistics or (), structure=config.structure, limits=self.config
        )
        require_choice("form", config.form, FORMS)
        self.form = FORMS[config.form](self.grammar)
        self.batches = batches_of(config, self.space, self.benchmark.classes, config.seed)
        networks = len(self.benchmark.architectures)
        chosen = split(networks, config.split_seed, config.train)
        self.parts = dict(zip(("train", "test"), chosen, strict=True))
        self._check_parts()
        make_writable("the cache", "--cache", self.cache)

    def _check_parts(self) -> None:
        for dataset, scores in self.benchmark.scores.items():
            for name, part in self.parts.items():
                if len(set(scores[part])) < 2:
                    raise ConfigError(
                        f"the {name} part must have at least two distinct scores of {dataset} to "
                        f"correlate with, but its {len(part)} networks have {scores[part][0]:g}: "
                        "choose another --split-seed or --train"
                    )
        networks = range(len(self.benchmark.architectures))
        pairs = 0 if self.config.objective == "jcm" else self.judge(networks).pairs
        if self.config.objective != "jcm" and pairs < FEWEST_PAIRS:
            raise ConfigError(
                f"the objective {self.config.objective} needs {FEWEST_PAIRS} pairs of networks "
                f"whose parameters differ by less than 10 %, but there are {pairs}"
            )

    def _thin(self) -> int:
        """The least power of two that leaves few enough weights, so that evolution stays fast."""
        sizes = [self.space.params(a, classes=1) for a in self.benchmark.architectures]
        thin = 1
        while sum(sizes) / len(sizes) / thin**2 > THINNED_WEIGHTS:
            thin *= 2
        return thin

    @property
    def name(self) -> str:
        return f"{self.benchmark.name}-{self.benchmark.space}-seed{self.config.seed}"

    @property
    def read(self) -> dict[str, str]:
        return digests(self.batches, self.benchmark)

    @property
    def counts(self) -> list[Shortfall]:
        return batch_shortfalls(self.config.batch_size, self.batches)

    @property
    def cache(self) -> Path:
        """The folder of the networks' statistics."""
        return kept_of(self.config).folder

    def setting(self, thin: int | None = None, seed: int | None = None) -> Setting:
        """How networks are measured: thinned as configured, unless said otherwise."""
        config, batches = self.config, self.batches
        if seed is not None:
            batches = batches_of(config, self.space, self.benchmark.classes, seed)
        return Setting(batches, thin or config.thin or 1, torch.device(self.config.device))

    def networks(self) -> list[SpaceNetwork]:
        """The benchmark's untrained networks."""
        return space_networks(self.space, self.benchmark.architectures, self.config.seed)

    def judge(self, networks: Sequence[int]) -> Judge:
        """Says what scores of some of the benchmark's networks are worth."""
        return Judge(self.benchmark, networks, self.config.seed, self.config.ties)

    def needs(self) -> set[Statistic]:
        """The statistics, by single domains, that trees of the grammar can read."""
        terminals = [name for name in self.grammar.terminals if name in EVERY_STATISTIC]
        read = {s for name in terminals for s in statistics(parse(name))}
        return {part for s in read for part in s.parts}

    def estimate(self) -> Estimate:
        """Estimate all stages from a few networks, which are measured in a folder of their own."""
        train, workers = self.parts["train"], self.config.workers
        share = workers / self.crew.size  # of a cluster's work, which it does as fast
        networks = self._by_flops(train)
        with TemporaryDirectory() as folder, one_thread():
            warm = self._measured_in(Path(folder, "first"), networks[:workers])
            number = workers * max(1, min(int(WARM / warm), len(train) // PART // workers))
            sample = spread(networks, number)
            first = FIRST if number == workers else 1.0
            each = share * self._measured_in(Path(folder), sample) / first
            size = sum(path.stat().st_size for path in Path(folder).glob("??/*")) / number
            stages = {
                "collect": len(train) * each,
                "evolve": self._evolution_seconds(sample, Path(folder)),
                "measure": (len(self.benchmark.architectures) - len(train)) * FEWER * each
                + (len(train) + SEEDED) * share * self._formula_seconds(sample)
                + self._comparison_seconds(),
            }
        return Estimate(
            len(train),
            len(self.batches),
            sum(stages.values()),
            round(len(train) * size),
            room_of(self.cache),
            stages,
        )

    def _by_flops(self, part: Indices) -> list[SpaceNetwork]:
        """Return the networks of a part in the order of their operations."""
        archs, networks = self.benchmark.architectures, self.networks()
        order = sorted(part.tolist(), key=lambda n: self.space.flops(archs[n], 1))
        return [networks[n] for n in order]

    def _measured_in(self, folder: Path, networks: Sequence[SpaceNetwork]) -> float:
        """Return the seconds that each network takes, published proxies included."""
        source, zoo = self._source(networks, folder), self._published_in(folder / "zoo")
        started = time.monotonic()
        source.collect(along=zoo)
        return (time.monotonic() - started) / len(networks)

    def _formula_seconds(self, networks: Sequence[SpaceNetwork]) -> float:
        """Return the seconds that a network takes for a formula of gradients."""
        setting, gradients = self.setting(thin=1), {EVERY_STATISTIC["mlp.grad"]}
        needs = dict.fromkeys(self.batches, gradients)

        def measure(network: SpaceNetwork) -> None:
            measured_alone(setting, network, needs, lambda dataset, measured: None)

        few = networks[: self.config.workers]
        started = time.monotonic()
        run_threads(self.config.workers, [partial(measure, network) for network in few])
        return (time.monotonic() - started) / len(few)

    def _comparison_seconds(self) -> float:
        """Estimate the intervals of correlations, of as many scores as are compared."""
        counts = baselines(self.benchmark)
        started = time.monotonic()
        for part in self.parts.values():
            judge, own = self.judge(part.tolist()), counts["params"]
            judge.table({dataset: scores[part] for dataset, scores in own.items()})
        return (time.monotonic() - started) * (len(counts) + RIVALS + len(self.config.zoo))

    def _source(self, networks: Sequence[SpaceNetwork], folder: Path) -> CachedMatrices:
        """Return networks whose statistics are in a folder of their own."""
        crew = Crew(self.config.workers)
        return CachedMatrices(self.setting(), networks, self.needs(), folder=folder, crew=crew)

    def _evolution_seconds(self, sample: Sequence[SpaceNetwork], folder: Path) -> float:
        """Estimate the evolution by typical formulas on copies of the sample, and their taus."""
        config, train = self.config, self.parts["train"]
        trees = self._typical_trees()
        target = Ground(self.judge(train.tolist()), []).target
        scores = np.random.default_rng(0).random((len(trees), len(self.batches), len(train)))
        started = time.monotonic()
        fitness([scores], [target], config.ties)
        taken = (time.monotonic() - started) / len(trees)
        taken += EVOLVED * seconds_of_formulas(
            trees,
            lambda count: self._source(list(islice(cycle(sample), count)), folder),
            len(train),
        )
        formulas = 2 * config.population + config.iterations * config.children
        return taken * min(formulas, config.evaluations or formulas)

    def _typical_trees(self) -> list[Tree]:
        """Return formulas of the operations that take most of the time, over all statistics."""
        read = [name for name in self.grammar.terminals if name in EVERY_STATISTIC]
        pairs = islice(zip(cycle(read), cycle(TYPICAL), strict=False), SAMPLE)
        return [parse(form.format(name)) for name, form in pairs]

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Evolve on thinned matrices, choose on whole ones, and measure what was chosen."""
        started, config = time.monotonic(), self.config
        state, before = restored(run, config.seed, len(self.benchmark.datasets), config.objective)
        store = self.collect(progress)

        def seconds() -> float:
            return before + time.monotonic() - started

        def record(state: State) -> None:
            line = {**state.logbook[-1], "seconds": round(seconds(), 3)}
            run.log(line)
            run.checkpoint(checkpoint(state, seconds()))
            progress("evolve", *state.progress(config), note_of(state))

        engine = Engine(store)
        toolbox = self.toolbox(engine)
        progress("evolve", *state.progress(config), note_of(state))
        evolve(toolbox, self.strategy, self.parameters, state, record)
        require_formula([state])
        found = self.trial(engine).choose(state.front)
        train = self.parts["train"]
        whole = self.whole({int(train[n]): reason for n, reason in store.failures.items()})
        progress("measure", 0, 1, str(found.tree))
        tree = whole.chosen(found, state.front, progress)
        progress("measure", 1, 1, str(tree))
        summary = {
            **whole.measured(tree, self.zoo(progress)),
            "objective": config.objective,
            "ties": config.ties,
            "front": described(state.front, tree),
            "evaluations": state.evaluations,
            **evolution_counts(config, [state]),
            "invalid": dict(state.invalid),
            "inputs": {dataset: batch.source for dataset, batch in self.batches.items()},
            "benchmark": self.benchmark.source,
            "seconds": round(seconds(), 3),
        }
        run.write_proxies(self._proxy_records(run, state.front, summary))
        return summary

    def collect(
        self, progress: Progress = silent, part: Indices | None = None, share: int = 1
    ) -> CachedMatrices:
        """The statistics that trees of the grammar can read: of the training networks, or a part.

        As many matrices are resident as a share of the memory allows.
        """
        networks, train = self.networks(), self.parts["train"] if part is None else part
        matrices = CachedMatrices(
            self.setting(),
            [networks[n] for n in train],
            self.needs(),
            memory=self.config.memory // share,
            crew=self.crew,
            **kept_of(self.config)._asdict(),
        )
        done = count(1)
        matrices.collect(lambda: progress("collect", next(done), len(train), ""), self._published)
        return matrices

    def toolbox(self, engine: Engine) -> base.Toolbox:
        """What `evolve` needs, on the engine's networks: the training part, or some of it."""
        individuals = self.trial(engine).individuals
        return make_toolbox(self.form, individuals, self.strategy, self.parameters)

    def trial(self, engine: Engine) -> Trial:
        """Of formulas on the training networks of the engine."""
        alive = engine.source.alive
        networks = self.parts["train"][alive].tolist()
        return Trial(self.config, [Ground(self.judge(networks), [Block(engine, alive)])])

    def whole(
        self, failed: Mapping[int, str], held_out: bool = False, with_zoo: bool = True
    ) -> Whole:
        """All networks, measured whole, but for those that failed.

        Those of a space that is held out are all its test. What the published proxies lack is
        measured along.
        """
        settings = [self.setting(thin=1), self.setting(thin=1, seed=self.config.seed + 1)]
        parts = {name: part.tolist() for name, part in self.parts.items()}
        if held_out:
            parts["test"] = list(range(len(self.benchmark.architectures)))
        along = self._published if with_zoo else None
        return Whole(self.benchmark, self.config, parts, settings, failed, held_out, along)

    @cached_property
    def _published(self) -> PublishedProxies:
        return self._published_in(self.cache.with_name("zoo"))

    def _published_in(self, folder: Path) -> PublishedProxies:
        return PublishedProxies(self.benchmark, self.config, self.setting(thin=1), folder)

    def zoo(self, progress: Progress = silent) -> Zoo:
        """The published proxies to compare with."""
        return self._published.measured(progress)

    def split_record(self) -> dict[str, Any]:
        """Return what a proxy file records of the split."""
        config = self.config
        return split_record(self.benchmark, config.subset, config.train, config.split_seed)

    def _proxy_records(
        self, run: Run, front: Sequence[Individual], summary: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """The chosen proxy with its taus on whole matrices, then the others of the front."""
        found = {
            "run": run.name,
            "space": self.config.space,
            "benchmark": self.benchmark.name,
            "label": self.benchmark.label,
            "datasets": self.benchmark.datasets,
            "seed": self.config.seed,
            "evolved_on": [self.split_record()],
        }
        taus = {
            part: {dataset: row["kendall"] for dataset, row in summary[part].items()}
            for part in self.parts
        }
        chosen = parse(summary["expression"])
        records = [(chosen, taus)] + [
            (i.tree, {"evolution": dict(zip(self.benchmark.datasets, i.taus, strict=True))})
            for i in front
            if digest(i.tree) != digest(chosen)
        ]
        return [
            {"expression": str(tree), "formula": pretty(tree), "found": found, "taus": measured}
            for tree, measured in records
        ]


def note_of(state: State) -> Note:
    """How far an evolution came: its best formula, and how many it has evaluated."""
    counts: dict[str, Any] = {"tried": state.evaluations, "invalid": sum(state.invalid.values())}
    if not state.logbook:
        return Note(**counts)
    best, text = float(state.logbook[-1]["best"]), str(state.logbook[-1]["expression"])
    return Note(f"best {best:.4f}  {text}", value=best, of="fitness", formula=text, **counts)


def described(front: Sequence[Individual], chosen: Tree) -> list[dict[str, Any]]:
    """The formulas of a front, the shortest first, and which of them is chosen."""
    return [
        {
            "expression": str(i.tree),
            "size": i.tree.size,
            "jcm": i.jcm,
            "given_size": i.given_size,
            "chosen": i.tree == chosen,
        }
        for i in sorted(front, key=lambda i: i.tree.size)
    ]


def _zoo(given: Sequence[str]) -> tuple[str, ...]:
    """The published proxies that are meant, all of which there must be."""
    names = () if tuple(given) == ("none",) else named_proxies(given)
    return Proxies([name for name in names if name not in COUNTS]).names
