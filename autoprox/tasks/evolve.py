"""Discovers a proxy: from a benchmark and a seed to a formula, and what it is worth on the rest."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from deap import base

from autoprox.engine.evaluator import REASONS, Engine, Scores
from autoprox.errors import ConfigError, nearest
from autoprox.evolution import (
    STRATEGIES,
    Form,
    Individual,
    State,
    assemble,
    evolve,
    make_toolbox,
    most_parsimonious,
)
from autoprox.evolution.two_inputs import TwoInputs
from autoprox.export import pretty
from autoprox.files.folders import user_cache
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
from autoprox.progress import Progress, silent
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import Floats, jcm, kendall, split
from autoprox.scoring.tables import Table, baselines, correlations
from autoprox.searchspaces import get_space
from autoprox.statistics.cached import CachedMatrices
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.statistics.networks import SpaceNetwork, space_networks
from autoprox.statistics.sources import StreamedMatrices
from autoprox.tasks.base import Task, batches_of, benchmark_of, completed, digests, path_of
from autoprox.tasks.checkpoint import checkpoint, restored
from autoprox.tasks.configurations import EvolveConfig

RIVALS = 10  # formulas that are measured on whole matrices where the chosen one fails there
THINNED_WEIGHTS = 300_000  # of a network, on average, while evolution compares it with others
FORMS: Mapping[str, Callable[[Grammar], Form]] = {"free": lambda own: own, "two-inputs": TwoInputs}


class Evolve(Task[EvolveConfig]):
    """The discovery of a proxy on the training part of a benchmark's networks."""

    def __init__(self, config: EvolveConfig) -> None:
        self.benchmark = benchmark_of(config)
        jcm(np.zeros(len(self.benchmark.datasets)), config.weights)
        self.space = get_space(self.benchmark.space)
        STRATEGIES.find(config.strategy)
        super().__init__(
            completed(
                config,
                benchmark=config.benchmark or self.benchmark.name,
                space=self.benchmark.space,
                datasets=self.benchmark.datasets,
                label=self.benchmark.label,
                split_seed=config.seed if config.split_seed is None else config.split_seed,
                statistics=tuple(config.statistics or STATISTICS),
                thin=config.thin or self._thin(),
                device=resolve_device(config.device),
            )
        )
        self.grammar = Grammar(self.config.statistics or (), limits=self.config)
        if config.form not in FORMS:
            raise ConfigError(f"unknown form {config.form!r}{nearest(config.form, FORMS)}")
        self.form = FORMS[config.form](self.grammar)
        self.batches = batches_of(config, self.space, self.benchmark.classes, config.seed)
        networks = len(self.benchmark.architectures)
        chosen = split(networks, self.config.split_seed or 0, config.train)
        self.parts = dict(zip(("train", "test"), chosen, strict=True))
        self._check_parts()
        self.cache.mkdir(parents=True, exist_ok=True)

    def _check_parts(self) -> None:
        for dataset, scores in self.benchmark.scores.items():
            for name, part in self.parts.items():
                if len(set(scores[part])) < 2:
                    raise ConfigError(
                        f"the {name} part must have at least two distinct scores of {dataset} to "
                        f"correlate with, but its {len(part)} networks have {scores[part][0]:g}: "
                        "choose another --split-seed or --train"
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
    def cache(self) -> Path:
        """The folder of the networks' statistics."""
        return (path_of(self.config.cache) or user_cache()) / "statistics"

    def setting(self, thin: int | None = None) -> Setting:
        """How networks are measured: thinned as configured, unless said otherwise."""
        device = torch.device(self.config.device)
        thin = thin or self.config.thin or 1
        return Setting(self.batches, thin, device)

    def networks(self) -> list[SpaceNetwork]:
        """The benchmark's untrained networks."""
        return space_networks(self.space, self.benchmark.architectures, self.config.seed)

    def truth(self, networks: Sequence[int]) -> Floats:
        """[datasets, networks]: the true scores of some of the benchmark's networks."""
        return np.stack([scores[list(networks)] for scores in self.benchmark.scores.values()])

    def needs(self) -> set[Statistic]:
        """The statistics, by single domains, that trees of the grammar can read."""
        terminals = [name for name in self.grammar.terminals if name in EVERY_STATISTIC]
        read = {s for name in terminals for s in statistics(parse(name))}
        return {part for s in read for part in s.parts}

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Evolve on thinned matrices, choose on whole ones, and measure what was chosen."""
        started, config = time.monotonic(), self.config
        state, before = restored(run, config.seed)
        store = self.collect(progress)

        def seconds() -> float:
            return before + time.monotonic() - started

        def record(state: State) -> None:
            line = {**state.logbook[-1], "seconds": round(seconds(), 3)}
            run.log(line)
            run.checkpoint(checkpoint(state, seconds()))
            note = f"best {line['best']:.4f}  {line['expression']}"
            progress("evolve", *state.progress(config), note)

        toolbox = self.toolbox(Engine(store))
        progress("evolve", *state.progress(config), "")
        evolve(toolbox, STRATEGIES[config.strategy], config, state, record)
        found = assemble(state.leaders, toolbox.evaluate, config, config)
        failed = {int(self.parts["train"][n]): reason for n, reason in store.failures.items()}
        whole = Whole(self, failed)
        progress("measure", 0, 1, str(found.tree))
        tree = whole.chosen(found, [leader.tree for leader in state.leaders[:RIVALS]], progress)
        progress("measure", 1, 1, str(tree))
        summary = {
            **whole.measured(tree),
            "evaluations": state.evaluations,
            "invalid": dict(state.invalid),
            "inputs": {dataset: batch.source for dataset, batch in self.batches.items()},
            "benchmark": self.benchmark.source,
            "seconds": round(seconds(), 3),
        }
        run.write_proxies(self._proxy_records(run, state.front, summary))
        return summary

    def collect(self, progress: Progress = silent) -> CachedMatrices:
        """The statistics of the training networks that trees of the grammar can read."""
        networks, train = self.networks(), self.parts["train"]
        matrices = CachedMatrices(
            self.setting(),
            [networks[n] for n in train],
            self.needs(),
            folder=self.cache,
            memory=self.config.memory,
            workers=self.config.workers,
        )
        done = itertools.count(1)
        matrices.collect(lambda: progress("collect", next(done), len(train), ""))
        return matrices

    def toolbox(self, engine: Engine) -> base.Toolbox:
        """What `evolve` needs, on the engine's networks: the training part, or some of it."""
        strategy = STRATEGIES[self.config.strategy]
        return make_toolbox(self.form, partial(self._evaluate, engine), strategy, self.config)

    def _evaluate(self, engine: Engine, trees: Sequence[Tree]) -> list[Individual]:
        alive = engine.source.alive
        truth = self.truth(self.parts["train"][alive].tolist())
        return self.individuals(trees, engine.evaluate(trees, alive), truth)

    def individuals(self, trees: Sequence[Tree], scores: Scores, truth: Floats) -> list[Individual]:
        """The trees with their fitness by these scores, or with the reason why they have none."""
        reasons = scores.reasons.max(axis=(1, 2))
        taus = kendall(scores.values, truth)  # [trees, datasets]
        fitness = jcm(taus, self.config.weights)
        return [
            Individual(tree, reason=REASONS[reason])
            if reason
            else Individual(tree, tuple(map(float, tau)), float(value))
            for tree, reason, tau, value in zip(trees, reasons, taus, fitness, strict=True)
        ]

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


class Whole:
    """All networks of a discovery, whole: on them a formula is chosen, and measured."""

    def __init__(self, task: Evolve, failed: Mapping[int, str]) -> None:
        self._task = task
        self._failed = dict(failed)
        source = StreamedMatrices(task.setting(thin=1), task.networks(), task.config.workers)
        self._engine = Engine(source)

    def chosen(
        self, found: Individual, rivals: Sequence[Tree], progress: Progress = silent
    ) -> Tree:
        """The formula found on thinned matrices, unless its fitness is lower on whole ones.

        Then it is chosen anew among its rivals, by the training part of whole matrices.
        """
        config = self._task.config
        (whole,) = self._evaluate([found.tree])
        if whole.jcm >= found.jcm - config.joining:
            return found.tree
        note = f"chosen anew among {len(rivals)}: {whole.jcm:.4f}, {found.tree}"
        progress("measure", 0, 1, note)
        valid = [rival for rival in self._evaluate(rivals) if rival.valid]
        if not valid:
            return found.tree
        leaders = most_parsimonious(valid, config)
        return assemble(leaders, self._evaluate, config, config).tree

    def measured(self, tree: Tree) -> dict[str, Any]:
        """What a proxy is worth on both parts of the split, beside the baselines.

        Networks that failed before, or fail now, are left out of all figures.
        """
        task, benchmark = self._task, self._task.benchmark
        self._engine.evaluate([tree])
        failed = self._lost()
        parts = {name: [n for n in part if n not in failed] for name, part in task.parts.items()}
        tables: dict[str, Table] = {}
        for name, part in parts.items():
            values = self._engine.evaluate([tree], part).values[0]
            tables[name] = correlations(
                dict(zip(benchmark.datasets, values, strict=True)),
                {dataset: scores[part] for dataset, scores in benchmark.scores.items()},
                task.config.seed,
            )
        return {
            "expression": str(tree),
            "formula": pretty(tree),
            **tables,
            "baselines": baselines(benchmark, parts, task.config.seed),
            "failed_networks": {str(network): reason for network, reason in failed.items()},
        }

    def _evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        """The fitness on the training networks, of an engine on all of them."""
        self._engine.evaluate(trees)  # then it is known which networks fail
        train = [n for n in self._task.parts["train"] if n not in self._lost()]
        scores = self._engine.evaluate(trees, train)
        return self._task.individuals(trees, scores, self._task.truth(train))

    def _lost(self) -> dict[int, str]:
        return {**self._failed, **self._engine.source.failures}
