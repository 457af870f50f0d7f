"""Discovers a proxy: from a benchmark and a seed to a formula, and what it is worth on the rest."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from deap import base

from autoprox.benchmarks import load_benchmark
from autoprox.benchmarks.files import user_cache
from autoprox.engine.evaluator import REASONS, Engine, Scores
from autoprox.evolution.loop import (
    JOINING,
    STRATEGIES,
    Individual,
    State,
    assemble,
    evolve,
    most_parsimonious,
)
from autoprox.export.formula import pretty
from autoprox.inputs.batches import load_batches
from autoprox.language.grammar import Grammar
from autoprox.language.tree import STATISTICS, Statistic, Tree, parse, statistics
from autoprox.runs.folder import Run, RunError, restored_rng, rng_state
from autoprox.scoring.correlations import Floats, jcm, kendall, split
from autoprox.scoring.tables import Table, baselines, correlations
from autoprox.searchspaces import get_space
from autoprox.statistics.cached import CachedMatrices
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import SpaceNetwork, space_networks
from autoprox.statistics.streamed import StreamedMatrices
from autoprox.tasks.config import Config, ConfigError

RESOURCES = ("workers", "memory", "cache")
RIVALS = 10  # formulas that are measured on whole matrices where the chosen one fails there
THINNED_WEIGHTS = 300_000  # of a network, on average, while evolution compares it with others

Progress = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


def silent(task: str, done: int, total: int, note: str) -> None:
    """Progress that nobody follows."""


class Problem:
    """What a configuration asks for, everything checked and read, nothing yet measured."""

    def __init__(self, config: Config) -> None:
        self.benchmark = load_benchmark(
            config.benchmark,
            space=config.space,
            datasets=config.datasets,
            label=config.label,
            subset=config.subset,
            data_dir=_path(config.data_dir),
        )
        jcm(np.zeros(len(self.benchmark.datasets)), config.weights)
        self.space = get_space(self.benchmark.space)
        self.config = replace(
            config, benchmark=config.benchmark or self.benchmark.name, space=self.benchmark.space,
            datasets=self.benchmark.datasets, label=self.benchmark.label,
            split_seed=config.seed if config.split_seed is None else config.split_seed,
            thin=config.thin or self._thin(),
        )  # fmt: skip
        self.grammar = Grammar(config.statistics, limits=config.limits)
        self.batches = load_batches(
            self.space,
            self.benchmark.classes,
            batch_size=config.batch_size,
            seed=config.seed,
            images=_path(config.images),
            text=_path(config.text),
            length=config.length,
        )
        networks = len(self.benchmark.architectures)
        chosen = split(networks, self.config.split_seed or 0, config.train)
        self.parts = dict(zip(("train", "test"), chosen, strict=True))
        self._check_parts()

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
    def cache(self) -> Path:
        """The folder of the networks' statistics."""
        return (_path(self.config.cache) or user_cache()) / "statistics"

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
        terminals = [s.symbol for s in self.grammar.signatures if s.symbol in STATISTICS]
        read = {s for name in terminals for s in statistics(parse(name))}
        return {
            replace(s, domain=domain)
            for s in read
            for domain in (("msa", "mlp") if s.domain == "all" else (s.domain,))
        }


def discover(
    config: Config, root: Path = Path("runs"), name: str | None = None, progress: Progress = silent
) -> dict[str, Any]:
    """Discover a proxy in a new run folder below `root`; returns the run's summary."""
    problem = Problem(config)
    problem.cache.mkdir(parents=True, exist_ok=True)
    name = name or f"{problem.benchmark.name}-{problem.benchmark.space}-seed{config.seed}"
    with Run.create(root, name, asdict(problem.config), config.device) as run:
        progress("run", 0, 0, str(run.path))
        return _discover(problem, run, progress)


def resume(path: Path, progress: Progress = silent, **resources: Any) -> dict[str, Any]:
    """Go on with a run from its checkpoint, as if it had never stopped; a finished one is read.

    Only RESOURCES, which don't change the result, may differ from the run's configuration.
    """
    if beyond := [name for name in resources if name not in RESOURCES]:
        raise ConfigError(
            f"a resumed run keeps its own configuration but for {', '.join(RESOURCES)}, "
            f"but got {', '.join(beyond)} beside resume"
        )
    with Run.resume(path) as run:
        config = replace(Config.from_json(run.read_config()), **resources)
        if (summary := run.read_summary()) is not None:
            return {"run": str(run.path), **summary}
        return _discover(Problem(config), run, progress)


def _discover(problem: Problem, run: Run, progress: Progress) -> dict[str, Any]:
    started = time.monotonic()
    config = problem.config
    state, before = _restored(run, config)
    store = collect_training(problem, progress)
    engine = Engine(store)

    def record(state: State) -> None:
        seconds = before + time.monotonic() - started
        line = _log_line(state, seconds)
        run.log(line)
        run.checkpoint(_checkpoint(state, seconds))
        note = f"best {line['best']:.4f}  {line['expression']}"
        progress("evolve", *config.settings.progress(state), note)

    toolbox = make_toolbox(problem, engine)
    progress("evolve", *config.settings.progress(state), "")
    evolve(toolbox, STRATEGIES[config.strategy], config.settings, state, record)
    chosen = assemble(state.leaders, toolbox.evaluate, config.settings, config.limits)
    rivals = [leader.tree for leader in state.leaders[:RIVALS]]
    failed = {int(problem.parts["train"][n]): reason for n, reason in store.failures.items()}
    summary = {
        **measure(problem, chosen.tree, progress, failed, chosen.jcm, rivals),
        "evaluations": state.evaluations,
        "invalid": dict(state.invalid),
        "inputs": {dataset: batch.source for dataset, batch in problem.batches.items()},
        "benchmark": problem.benchmark.source,
        "seconds": round(before + time.monotonic() - started, 3),
    }
    run.write_proxies(_proxy_records(problem, run, state.front, summary))
    run.write_summary(summary)
    return {"run": str(run.path), **summary}


def make_toolbox(problem: Problem, engine: Engine) -> base.Toolbox:
    """What `evolve` needs, on the engine's networks: the training part, or some of it."""
    toolbox = base.Toolbox()
    toolbox.register("evaluate", _evaluate, problem, engine)
    toolbox.register("generate", problem.grammar.generate)
    toolbox.register("mutate", problem.grammar.mutate)
    toolbox.register("mate", problem.grammar.crossover)
    return toolbox


def collect_training(problem: Problem, progress: Progress = silent) -> CachedMatrices:
    """The statistics of the training networks that trees of the grammar can read."""
    config = problem.config
    all_networks = problem.networks()
    networks = [all_networks[n] for n in problem.parts["train"]]
    done = itertools.count(1)
    matrices = CachedMatrices(
        problem.setting(),
        networks,
        problem.needs(),
        folder=problem.cache,
        memory=config.memory,
        workers=config.workers,
    )
    matrices.collect(lambda: progress("collect", next(done), len(networks), ""))
    return matrices


def _evaluate(problem: Problem, engine: Engine, trees: Sequence[Tree]) -> list[Individual]:
    alive = engine.source.alive
    truth = problem.truth(problem.parts["train"][alive].tolist())
    return _individuals(problem, trees, engine.evaluate(trees, alive), truth)


def _individuals(
    problem: Problem, trees: Sequence[Tree], scores: Scores, truth: Floats
) -> list[Individual]:
    reasons = scores.reasons.max(axis=(1, 2))
    taus = kendall(scores.values, truth)  # [trees, datasets]
    fitness = jcm(taus, problem.config.weights)
    return [
        Individual(tree, reason=REASONS[reason])
        if reason
        else Individual(tree, tuple(map(float, tau)), float(value))
        for tree, reason, tau, value in zip(trees, reasons, taus, fitness, strict=True)
    ]


def measure(
    problem: Problem,
    tree: Tree,
    progress: Progress = silent,
    failed: Mapping[int, str] = MappingProxyType({}),
    expected: float = -math.inf,
    rivals: Sequence[Tree] = (),
) -> dict[str, Any]:
    """The chosen proxy on whole matrices, on both parts of the split, beside the baselines.

    Where its fitness there is below the expected one, of thinned matrices, the proxy is chosen anew
    among its rivals: on whole matrices, by the training part. Networks that failed before, or fail
    now, are left out of all figures.
    """
    config, benchmark = problem.config, problem.benchmark
    fresh = StreamedMatrices(problem.setting(thin=1), problem.networks(), config.workers)
    engine = Engine(fresh)
    progress("measure", 0, 1, str(tree))
    evaluate = partial(_evaluate_whole, problem, engine, failed)
    (found,) = evaluate([tree])
    if found.jcm < expected - JOINING * config.settings.margin:
        progress("measure", 0, 1, f"chosen anew among {len(rivals)}: {found.jcm:.4f}, {tree}")
        if valid := [rival for rival in evaluate(rivals) if rival.valid]:
            leaders = most_parsimonious(valid, config.settings)
            tree = assemble(leaders, evaluate, config.settings, config.limits).tree
    progress("measure", 1, 1, str(tree))
    failed = {**failed, **fresh.failures}
    parts = {name: [n for n in part if n not in failed] for name, part in problem.parts.items()}
    tables: dict[str, Table] = {}
    for name, part in parts.items():
        values = engine.evaluate([tree], part).values[0]
        tables[name] = correlations(
            dict(zip(benchmark.datasets, values, strict=True)),
            {dataset: scores[part] for dataset, scores in benchmark.scores.items()},
            config.seed,
        )
    return {
        "expression": str(tree),
        "formula": pretty(tree),
        **tables,
        "baselines": baselines(benchmark, parts, config.seed),
        "failed_networks": {str(network): reason for network, reason in failed.items()},
    }


def _evaluate_whole(
    problem: Problem, engine: Engine, failed: Mapping[int, str], trees: Sequence[Tree]
) -> list[Individual]:
    """The fitness on the training networks, of an engine on all of them."""
    engine.evaluate(trees)  # then it is known which networks fail
    lost = {*failed, *engine.source.failures}
    train = [n for n in problem.parts["train"] if n not in lost]
    return _individuals(problem, trees, engine.evaluate(trees, train), problem.truth(train))


def _log_line(state: State, seconds: float) -> dict[str, Any]:
    best = state.population[0]
    return {
        "iteration": state.iteration,
        "evaluations": state.evaluations,
        "best": best.jcm,
        "mean": float(np.mean([i.jcm for i in state.population])),
        "size": best.tree.size,
        "expression": str(best.tree),
        "invalid": sum(state.invalid.values()),
        "seconds": round(seconds, 3),
    }


def _checkpoint(state: State, seconds: float) -> dict[str, Any]:
    return {
        "iteration": state.iteration,
        "evaluations": state.evaluations,
        "invalid": dict(state.invalid),
        "seconds": round(seconds, 3),
        "rng": rng_state(state.rng),
        "population": [_to_json(i) for i in state.population],
        "front": [_to_json(i) for i in state.front],
        "leaders": [_to_json(i) for i in state.leaders],
    }


def _restored(run: Run, config: Config) -> tuple[State, float]:
    """The state of the last checkpoint and the seconds spent until then, or a beginning."""
    saved = run.read_checkpoint()
    if saved is None:
        run.truncate_log(0)
        return State(random.Random(config.seed)), 0.0
    try:
        run.truncate_log(saved["iteration"])
        state = State(
            restored_rng(saved["rng"]),
            [_from_json(i) for i in saved["population"]],
            leaders=[_from_json(i) for i in saved["leaders"]],
            iteration=saved["iteration"],
            evaluations=saved["evaluations"],
            invalid=Counter(saved["invalid"]),
        )
        # Backwards: of equals, a front has the last one first.
        state.front.update([_from_json(i) for i in reversed(saved["front"])])
        return state, float(saved["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        rule = "a checkpoint must be one that this version wrote"
        raise RunError(f"{rule}, but {run.path} has: {type(error).__name__} {error}") from error


def _to_json(individual: Individual) -> dict[str, Any]:
    return {
        "expression": str(individual.tree),
        "taus": individual.taus,
        "jcm": individual.jcm,
    }


def _from_json(saved: Mapping[str, Any]) -> Individual:
    return Individual(parse(saved["expression"]), tuple(saved["taus"]), saved["jcm"])


def _proxy_records(
    problem: Problem,
    run: Run,
    front: Sequence[Individual],
    summary: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The chosen proxy with its taus on whole matrices, then the others of the Pareto front."""
    found = {
        "run": run.name,
        "space": problem.config.space,
        "benchmark": problem.benchmark.name,
        "label": problem.benchmark.label,
        "datasets": problem.benchmark.datasets,
        "seed": problem.config.seed,
    }
    taus = {
        part: {dataset: row["kendall"] for dataset, row in summary[part].items()}
        for part in problem.parts
    }
    chosen = parse(summary["expression"])
    records = [(chosen, taus)] + [
        (i.tree, {"evolution": dict(zip(problem.benchmark.datasets, i.taus, strict=True))})
        for i in front
        if i.tree.digest != chosen.digest
    ]
    return [
        {"expression": str(tree), "formula": pretty(tree), "found": found, "taus": measured}
        for tree, measured in records
    ]


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
