"""Random terms, measured on all networks of a benchmark."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, reseeded_indices
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evolution.power_law import LabelledNetworks
from autoprox.language import Tree, canonical, statistics
from autoprox.language.grammar import Grammar
from autoprox.progress import Progress, silent
from autoprox.scoring.correlations import Floats

BATCH = 100  # terms that are evaluated together


class TermScores(NamedTuple):
    """Terms with the logarithms of their magnitudes, [terms, rows], and the networks' labels."""

    terms: list[Tree]
    logs: Floats
    fixed: Floats  # the logarithms of the terms that were asked for, nan if they have none
    labelled: LabelledNetworks
    networks: list[int]  # of the benchmark, in the order of a pair's rows


def random_terms(grammar: Grammar, count: int, seed: int) -> list[Tree]:
    """Return different random terms, the same for a seed."""
    rng = Random(seed)
    found: dict[Tree, None] = {}
    while len(found) < count:
        found.setdefault(canonical(grammar.generate(rng)))
    return list(found)


def measured_terms(
    problem: SpaceProblem,
    terms: Sequence[Tree],
    fixed: Sequence[Tree] = (),
    progress: Progress = silent,
) -> TermScores:
    """Measure terms on all networks of a problem, those of the test part too.

    Terms that aren't usable as factors are left out, unless they are `fixed`.
    """
    every = np.arange(len(problem.benchmark.architectures))
    needs = {part for t in (*terms, *fixed) for own in statistics(t) for part in own.parts}
    few = every[reseeded_indices(len(every), spaces=1)]
    memory, seed = problem.config.memory, problem.config.seed + 1
    source = problem.collect(needs, every, memory * 4 // 5, progress)
    again = problem.collect(needs, few, memory // 5, progress, seed=seed)
    evaluator = PowerLawEvaluator(
        problem.config,
        [problem.measured_networks([(TreeEvaluator(source), every)])],
        [problem.measured_networks([(TreeEvaluator(again), few)])],
    )
    found: list[Tree] = []
    logs = []
    for start in range(0, len(terms), BATCH):
        progress("terms", start, len(terms), "")
        usable = evaluator.measure(terms[start : start + BATCH])
        found += usable.terms
        logs.append(usable.logs)
    progress("terms", len(terms), len(terms), "")
    own = evaluator.logs(fixed) if fixed else np.empty((0, len(evaluator.labelled.truth)))
    [measured] = evaluator.networks
    networks = measured.evaluation_set.networks
    return TermScores(found, np.concatenate(logs), own, evaluator.labelled, networks)
