"""Runs a search: from a configuration to the best architectures, everything kept in a folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from autoprox.benchmarks import BENCHMARKS
from autoprox.errors import AutoproxError, nearest
from autoprox.files.atomic import write_json
from autoprox.files.json_lines import Record
from autoprox.inputs.batches import load_batches
from autoprox.inputs.images import CLASSES
from autoprox.nas.evaluators import load_evaluator
from autoprox.nas.own_weights import OwnWeights
from autoprox.nas.proxy import Proxy
from autoprox.nas.searcher import Scorer, Searcher
from autoprox.nas.size_limits import SizeLimits
from autoprox.nas.sliced_weights import SlicedWeights, require_slices
from autoprox.nas.strategies import STRATEGIES
from autoprox.runs.folder import Run
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import Setting
from autoprox.tasks.config import ConfigError
from autoprox.tasks.search_config import KIND, SearchConfig
from autoprox.zoo.loading import load

RESOURCES = ("workers",)
CANDIDATES = "candidates.jsonl"
EVALUATIONS = "evaluations.jsonl"
TOP = "top.json"

Progress = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


def silent(task: str, done: int, total: int, note: str) -> None:
    """Progress that nobody follows."""


class Problem:
    """What a configuration asks for, everything checked and read, nothing yet measured."""

    def __init__(self, config: SearchConfig) -> None:
        self.space = get_space(config.space)
        self.strategy = STRATEGIES[config.strategy]
        tree = load(config.proxy).tree
        self.proxy = Proxy(tree, self.strategy.by_block)
        # As an expression: the file or run may be gone when the search is resumed.
        self.config = replace(config, space=self.space.name, proxy=str(tree))
        classes = _classes(config.dataset)
        self.limits = SizeLimits(self.space, classes, config.params, config.flops)
        self.evaluator = None
        if config.evaluator is not None:
            data_dir = _path(config.data_dir)
            self.evaluator = load_evaluator(config.evaluator, self.space, config.dataset, data_dir)
        elif self.strategy.evaluator:
            raise ConfigError(
                f"{config.strategy} must have an evaluator, a benchmark or MODULE:FUNCTION, "
                "but got none"
            )
        if config.weights == "inherited":
            require_slices(self.space)
        self._check_statistics()
        self.limits.approach(self.space.sample(rng := random.Random(config.seed)), rng)
        batches = load_batches(
            self.space,
            {config.dataset: classes},
            batch_size=config.batch_size,
            seed=config.seed,
            images=_path(config.images),
            text=_path(config.text),
            length=config.length,
        )
        self.setting = Setting(batches, device=torch.device(config.device))

    def scorer(self) -> Scorer:
        """What measures the candidates."""
        kinds: dict[str, Callable[..., Scorer]] = {"fresh": OwnWeights, "inherited": SlicedWeights}
        config = self.config
        make = kinds[config.weights]
        return make(self.proxy, self.space, self.setting, config.seed, config.workers)

    def _check_statistics(self) -> None:
        """A space may lack a domain: its networks then have no such layers."""
        with torch.device("meta"):
            network = self.space.network(self.space.largest(), classes=1)
        there = {domain for domain, _ in network.layers()}
        for statistic in sorted(self.proxy.needs, key=str):
            if statistic.domain not in there:
                raise ConfigError(
                    f"the proxy needs {statistic}, but the networks of {self.space.name} only "
                    f"have linear layers of {', '.join(sorted(there)) or 'no domain'}"
                )


def run_search(
    config: SearchConfig,
    root: Path = Path("runs"),
    name: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Search in a new run folder below `root`; returns the run's summary."""
    problem = Problem(config)
    name = name or f"search-{problem.space.name}-{config.strategy}-seed{config.seed}"
    with Run.create(root, name, problem.config.to_json(), config.device) as run:
        progress("run", 0, 0, str(run.path))
        return _search(problem, run, progress)


def resume(path: Path, progress: Progress = silent, **resources: Any) -> dict[str, Any]:
    """Go on with a search, as if it had never stopped; a finished one is read.

    The strategy runs again from its seed, and what is on record isn't measured again. Only
    RESOURCES, which don't change the result, may differ from the run's configuration.
    """
    if beyond := [name for name in resources if name not in RESOURCES]:
        raise ConfigError(
            f"a resumed search keeps its own configuration but for {', '.join(RESOURCES)}, "
            f"but got {', '.join(beyond)} beside resume"
        )
    with Run.resume(path, KIND) as run:
        config = replace(SearchConfig.from_json(run.read_config()), **resources)
        if (summary := run.read_summary()) is not None:
            return {"run": str(run.path), **summary}
        return _search(Problem(config), run, progress)


def _search(problem: Problem, run: Run, progress: Progress) -> dict[str, Any]:
    started = time.monotonic()
    log = run.read_log()
    run.truncate_log(len(log))
    before = float(log[-1]["seconds"]) if log else 0.0
    total = problem.config.settings.candidates

    def seconds() -> float:
        return round(before + time.monotonic() - started, 3)

    def on_step(searcher: Searcher) -> None:
        if searcher.steps > len(log):
            run.log({**_step(searcher), "seconds": seconds()})

    def on_candidate(searcher: Searcher) -> None:
        progress("search", len(searcher.candidates), total, "")

    searcher = Searcher(
        problem.limits,
        problem.proxy,
        problem.scorer(),
        problem.config.seed,
        evaluator=problem.evaluator,
        scored=Record(run.path / CANDIDATES),
        evaluated=Record(run.path / EVALUATIONS),
        on_candidate=on_candidate,
        on_step=on_step,
    )
    problem.strategy.search(searcher, problem.config.settings)
    if problem.evaluator is not None and not searcher.evaluations:
        searcher.evaluate(searcher.ranked()[: problem.config.top])
    summary = {**_summary(problem, searcher), "seconds": seconds()}
    write_json(run.path / TOP, summary["top"])
    run.write_summary(summary)
    return {"run": str(run.path), **summary}


def _step(searcher: Searcher) -> dict[str, Any]:
    """A line of the log."""
    best, evaluated = searcher.ranked()[0], searcher.evaluated()
    return {
        "step": searcher.steps,
        "candidates": len(searcher.candidates),
        "failed": sum(searcher.failures().values()),
        "best": best.number,
        "score": searcher.score_of(best),
        "value": evaluated[0].value if evaluated else None,
    }


def _summary(problem: Problem, searcher: Searcher) -> dict[str, Any]:
    """The best by the evaluator where there is one, or else by the proxy, ranked among all."""
    config = problem.config
    top = [
        {
            "arch": candidate.architecture.to_json()["choices"],
            **candidate.sizes._asdict(),
            "score": searcher.score_of(candidate),
            **({"value": candidate.value} if problem.evaluator else {}),
            "candidate": candidate.number,
        }
        for candidate in (searcher.evaluated() or searcher.ranked())[: config.top]
    ]
    [batch] = problem.setting.batches.values()
    return {
        "space": config.space,
        "proxy": config.proxy,
        "strategy": config.strategy,
        "weights": config.weights,
        "best": top[0],
        "top": top,
        "evaluations": len(searcher.candidates),
        "evaluator": config.evaluator,
        "evaluated": searcher.evaluations,
        "failed": searcher.failures(),
        "inputs": batch.source,
    }


def _classes(dataset: str) -> int:
    """The number of classes of a dataset that is known, from a benchmark perhaps."""
    of_benchmarks = {d: n for source in BENCHMARKS.values() for d, n in source.classes.items()}
    known = {**of_benchmarks, **CLASSES}
    if dataset not in known:
        raise AutoproxError(f"unknown dataset {dataset!r}{nearest(dataset, known)}")
    return known[dataset]


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
