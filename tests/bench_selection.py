"""Compares rules for the final formula: `python tests/bench_selection.py SPACE [--splits 0,1,2]`.

Nothing is read of a split's test networks: two thirds of its training networks evolve, by the
default settings, and the others say what each rule's formula is worth. Prints JSON: for every rule
the mean tau-b, and with ties broken, less that of the best formula by fitness less 0.001 a node,
with the standard errors over the splits (too small, for the splits share networks).
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

from autoprox.engine.evaluator import Engine
from autoprox.evolution import (
    STRATEGIES,
    EvolutionParameters,
    Individual,
    State,
    assemble,
    evolve,
    most_parsimonious,
)
from autoprox.language import Tree, make
from autoprox.scoring.correlations import kendall, split, ties_broken
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.evolve import Evolve

BASE = "0.001 a node"
Evaluate = Callable[[Sequence[Tree]], list[Individual]]
Rule = Callable[[list[Individual], Evaluate], Tree]


def rank_sum(individuals: Sequence[Individual]) -> Tree:
    return reduce(partial(make, "add"), [make("rank", i.tree) for i in individuals])


def best(parsimony: float, individuals: list[Individual], evaluate: Evaluate) -> Tree:
    return most_parsimonious(individuals, EvolutionParameters(parsimony=parsimony))[0].tree


def of_the_best(individuals: list[Individual], evaluate: Evaluate) -> Tree:
    return rank_sum(most_parsimonious(individuals, EvolutionParameters())[:10])


def of_the_front(individuals: list[Individual], evaluate: Evaluate) -> Tree:
    front = tools.ParetoFront(similar=lambda one, other: one.taus == other.taus)
    front.update(individuals)
    return rank_sum(front)


def joined(individuals: list[Individual], evaluate: Evaluate) -> Tree:
    config = EvolveConfig()
    leaders = most_parsimonious(individuals, config)
    return assemble(leaders, evaluate, config, config).tree


RULES: dict[str, Rule] = {
    BASE: partial(best, 0.001),
    "the fittest": partial(best, 0.0),
    "0.002 a node": partial(best, 0.002),
    "rank sum of the 10 best": of_the_best,
    "rank sum of the front": of_the_front,
    "ranks that are worth it": joined,
}


def worth(problem: Evolve, split_seed: int) -> dict[str, tuple[float, float]]:
    """For each rule tau-b and tau with ties broken, the means over the datasets."""
    store = problem.collect()
    engine = Engine(store)
    toolbox = problem.toolbox(engine)
    fit, rest = (part.tolist() for part in split(len(store.networks), split_seed, 2 / 3))
    seen: dict[Tree, Individual] = {}

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        scores = engine.evaluate(trees, fit)
        found = problem.individuals(trees, scores, problem.truth(problem.parts["train"][fit]))
        seen.update({i.tree: i for i in found if i.valid})
        return found

    toolbox.register("evaluate", evaluate)
    state = State(random.Random(split_seed))
    evolve(
        toolbox,
        STRATEGIES[problem.config.strategy],
        EvolutionParameters(),
        state,
        lambda state: None,
    )
    individuals, truth = list(seen.values()), problem.truth(problem.parts["train"][rest])
    found = {}
    for name, rule in RULES.items():
        scores = engine.evaluate([rule(individuals, evaluate)], rest).values[0]
        pairs = list(zip(scores, truth, strict=True))
        found[name] = (
            mean(float(kendall(*pair)) for pair in pairs),
            mean(ties_broken(*pair) for pair in pairs),
        )
    return found


def summary(rows: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    table: dict[str, dict[str, Any]] = {name: {} for name in RULES}
    for index, column in enumerate(("tau_b", "ties_broken")):
        for name in RULES:
            gains = [row[name][index] - row[BASE][index] for row in rows]
            error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None
            table[name][column] = {"gain": mean(gains), "error": error}
        table[BASE][column] = mean(row[BASE][index] for row in rows)
    return {"splits": len(rows), "rules": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("space", choices=["autoformer", "pit", "autoformer-nano"])
    parser.add_argument("--splits", default="0,1,2,3,4")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    rows = []
    for seed in map(int, options.splits.split(",")):
        problem = Evolve(
            EvolveConfig(space=options.space, split_seed=seed, workers=options.workers)
        )
        rows.append(worth(problem, seed))
        print(f"split {seed} done", file=sys.stderr, flush=True)
    json.dump({"command": sys.argv[1:], **summary(rows)}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
