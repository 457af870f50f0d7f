"""Compares rules for the final formula: `python tests/bench/selection.py SPACE [--splits 0,1,2]`.

A split's test networks are never read: two thirds of its training networks evolve, by the
default settings, and each rule's formula ranks the others. Prints JSON: for every rule the mean
tau-b, and the tau with unordered ties, minus that of the best formula by fitness minus 0.001 a
node, with the standard errors over the splits (too small, for the splits share networks).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from statistics import mean, stdev
from typing import Any

from deap import tools

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import SourceNetworks, TreeEvaluator
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator, MeasuredNetworks
from autoprox.evolution import (
    STRATEGIES,
    EvolutionParameters,
    Individual,
    State,
    evolve,
    make_toolbox,
)
from autoprox.language import Tree, make_tree
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import kendall, kendall_unordered_ties

BASE = "0.001 a node"
Rule = Callable[[list[Individual], FitnessEvaluator], Tree]


def rank_sum(individuals: Sequence[Individual]) -> Tree:
    return reduce(partial(make_tree, "add"), [make_tree("rank", i.tree) for i in individuals])


def by_parsimony(individuals: list[Individual], parsimony: float) -> list[Individual]:
    """Sort by the joint metric minus a cost of each node, best first."""
    return sorted(individuals, key=lambda i: (i.jcm - parsimony * i.tree.size, -i.tree.size))[::-1]


def best(parsimony: float, individuals: list[Individual], evaluator: FitnessEvaluator) -> Tree:
    return by_parsimony(individuals, parsimony)[0].tree


def near_the_best(
    tolerance: float, individuals: list[Individual], evaluator: FitnessEvaluator
) -> Tree:
    return evaluator.choose(front_of(individuals), tolerance).tree


def front_of(individuals: list[Individual]) -> list[Individual]:
    front = tools.ParetoFront(similar=lambda one, other: one.taus == other.taus)
    front.update(individuals)
    return list(front)


def of_the_best(individuals: list[Individual], evaluator: FitnessEvaluator) -> Tree:
    return rank_sum(by_parsimony(individuals, 0.001)[:10])


def of_the_front(individuals: list[Individual], evaluator: FitnessEvaluator) -> Tree:
    return rank_sum(front_of(individuals))


def rank_sum_while_better(individuals: list[Individual], evaluator: FitnessEvaluator) -> Tree:
    """Add ranks to the best formula's as long as each raises the fitness by 0.005."""
    leaders = by_parsimony(individuals, 0.001)[:100]
    chosen, ranks = leaders[0], make_tree("rank", leaders[0].tree)
    while True:
        sums = [make_tree("add", ranks, make_tree("rank", other.tree)) for other in leaders]
        within = [tree for tree in sums if EvolveConfig(form="tree").allow(tree)]
        found = [i for i in evaluator.evaluate(within) if i.valid]
        fittest = max(found, key=lambda i: i.fitness, default=chosen)
        if fittest.jcm - chosen.jcm <= 0.005:
            return chosen.tree
        chosen, ranks = fittest, fittest.tree


RULES: dict[str, Rule] = {
    BASE: partial(best, 0.001),
    "the fittest": partial(best, 0.0),
    "0.002 a node": partial(best, 0.002),
    "rank sum of the 10 best": of_the_best,
    "rank sum of the front": of_the_front,
    "ranks that raise the fitness": rank_sum_while_better,
    "the shortest within an error": partial(near_the_best, 1.0),
    "the shortest within half an error": partial(near_the_best, 0.5),
}


def ranking_quality(task: EvolveTask, split_seed: int) -> dict[str, tuple[float, float]]:
    """Return tau-b and tau with unordered ties for each rule, means over the datasets."""
    (problem,), strategy = task.problems.values(), STRATEGIES[task.config.strategy]
    store = problem.collect(task.needs(), problem.parts["train"], task.config.memory)
    engine = TreeEvaluator(store)
    fit, rest = (part.tolist() for part in split_networks(len(store.networks), split_seed, 2 / 3))
    seen: dict[Tree, Individual] = {}

    train = problem.parts["train"]
    fitted = MeasuredNetworks(
        problem.evaluation_set(train[fit].tolist()), [SourceNetworks(engine, fit)]
    )
    evaluator = FitnessEvaluator(task.config, [fitted])

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        found = evaluator.evaluate(trees)
        seen.update({i.tree: i for i in found if i.valid})
        return found

    parameters, state = EvolutionParameters(), State(random.Random(split_seed))
    toolbox = make_toolbox(task.representation, evaluate, strategy, parameters)
    evolve(toolbox, strategy, parameters, state, lambda state: None)
    individuals = list(seen.values())
    truth = [scores[train[rest]] for scores in problem.benchmark.scores.values()]
    found = {}
    for name, rule in RULES.items():
        scores = engine.evaluate([rule(individuals, evaluator)], rest).values[0]
        pairs = list(zip(scores, truth, strict=True))
        found[name] = (
            mean(float(kendall(*pair)) for pair in pairs),
            mean(float(kendall_unordered_ties(*pair)) for pair in pairs),
        )
    return found


def summary(rows: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    table: dict[str, dict[str, Any]] = {name: {} for name in RULES}
    for index, column in enumerate(("tau_b", "kendall_unordered_ties")):
        for name in RULES:
            gains = [row[name][index] - row[BASE][index] for row in rows]
            error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None
            table[name][column] = {"gain": mean(gains), "error": error}
        table[BASE][column] = mean(row[BASE][index] for row in rows)
    return {"splits": len(rows), "rules": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("space")
    parser.add_argument("--splits", default="0,1,2,3,4")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    rows = []
    for seed in map(int, options.splits.split(",")):
        config = EvolveConfig(
            form="tree", space=options.space, split_seed=seed, workers=options.workers
        )
        rows.append(ranking_quality(EvolveTask(config), seed))
        print(f"split {seed} done", file=sys.stderr, flush=True)
    json.dump({"command": sys.argv[1:], **summary(rows)}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
