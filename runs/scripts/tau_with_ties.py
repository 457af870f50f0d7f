"""Kendall tau by both ways to count ties: `python runs/scripts/tau_with_ties.py RUN ...`.

Prints a table of the taus on a run's test networks, means over its datasets, for the proxy and for
the parameter count: tau-b; tau with ties counted as unordered; and with `--within FIELD` the tau-b
among networks of equal FIELD, which differ less in size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.language import Tree
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.runner import read_config
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import Floats, kendall, kendall_unordered_ties
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.zoo.proxy_loading import resolve_proxy


def scores_of(problem: SpaceProblem, tree: Tree, networks: list[int]) -> Floats:
    every = problem.networks()
    chosen = [every[n] for n in networks]
    engine = TreeEvaluator(
        UncachedMatrices(problem.setting(stride=1), chosen, WorkerPool(problem.config.workers))
    )
    scores: Floats = engine.evaluate([tree]).values[0]
    return scores


def taus(scores: Floats, truth: Floats, groups: list[list[int]]) -> Iterator[Floats]:
    """Yield taus [datasets] of scores and true scores [datasets, networks]."""
    yield kendall(scores, truth)
    yield np.array([kendall_unordered_ties(*pair) for pair in zip(scores, truth, strict=True)])
    for group in groups:
        yield kendall(scores[:, group], truth[:, group])


def lines(path: Path, within: str | None, workers: int) -> Iterator[str]:
    """Yield the lines of a table on the proxy of a run and on the parameter count."""
    config = read_config(Run.open(path, "evolve"), workers=workers)
    assert isinstance(config, EvolveConfig)
    [problem] = EvolveTask(config).problems.values()
    tree, test = resolve_proxy(str(path)).tree, problem.parts["test"].tolist()
    truth = np.stack([scores[test] for scores in problem.benchmark.scores.values()])
    architectures = [problem.benchmark.architectures[n] for n in test]
    values = sorted({arch[within] for arch in architectures}) if within else []
    groups = [[i for i, arch in enumerate(architectures) if arch[within] == v] for v in values]
    headings = ["tau-b", "ties unordered", *(f"{within} {value}" for value in values)]
    yield f"| {path.name} | distinct | {' | '.join(headings)} |"
    yield "|---" * (len(headings) + 2) + "|"
    classes = problem.benchmark.classes.values()
    params = [[problem.space.params(a, n) for a in architectures] for n in classes]
    rows = {f"`{tree}`": scores_of(problem, tree, test), "params": np.array(params, dtype=float)}
    for name, scores in rows.items():
        cells = (f"{tau.mean():.3f}" for tau in taus(scores, truth, groups))
        distinct = f"{min(len(np.unique(row)) for row in scores)} of {len(test)}"
        yield f"| {name} | {distinct} | {' | '.join(cells)} |"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--within", help="a choice of the space, such as embed_dim")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for path in options.runs:
        for line in lines(path, options.within, options.workers):
            print(line, flush=True)


if __name__ == "__main__":
    main()
