"""How long power laws should be evolved, by nested cross-validation on training parts alone.

    python runs/scripts/choose_stopping.py run [--spaces gpt2-nano] [--splits 10]
    python runs/scripts/choose_stopping.py page

Of the training part of each split, 70 % are evolved on, and the others give the tau of the best
formula and of the committee after each iteration. The committee's members are chosen on random
parts of the former: their taus on what is left of it are the out-of-bag taus, by which evolution
may stop. No label of a test part is read. `run` keeps runs/measured/stopping.json; `page` prints
the tables of docs/results/selection.md.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from choose_power_law import INNER, SPACES

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.fitness_evaluator import MeasuredNetworks
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, reseeded_indices
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evolution import State, make_toolbox
from autoprox.evolution.power_law import LEAST_LOG, PowerLawFit, factors_of
from autoprox.evolution.power_law_loop import evolve_power_laws
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import Floats, Indices

MEASURED = Path(__file__).parents[2] / "runs" / "measured" / "stopping.json"
ITERATIONS = 30
PATIENCE = (3, 5, 8)
STEPS = (1, 5, 10, 15, 20, 25, 30)


def networks_of(problem: SpaceProblem, source: Any, chosen: Indices) -> MeasuredNetworks:
    """Return some networks of a problem, whose statistics were collected."""
    return problem.measured_networks([(TreeEvaluator(source(chosen)), chosen)])


def measured(space: str, split: int) -> dict[str, list[float]]:
    """Return the taus after each iteration, the first of which is that of the random terms."""
    task = EvolveTask(EvolveConfig(space=space, zoo=("none",), iterations=ITERATIONS, workers=1))
    [problem] = task.problems.values()
    train, _ = split_networks(len(problem.benchmark.architectures), split, task.config.train)
    part, _ = split_networks(len(train), 1000 + split, INNER)
    inner = train[part]
    outer = np.setdiff1d(train, inner)
    collect = partial(problem.collect, task.needs(), memory=task.config.memory)
    few = inner[reseeded_indices(len(inner), 1)]
    again = partial(collect, seed=task.config.seed + 1)
    fitted, rest = networks_of(problem, collect, inner), networks_of(problem, collect, outer)
    evaluator = PowerLawEvaluator(task.config, [fitted], [networks_of(problem, again, few)])
    held = PowerLawEvaluator(task.config, [rest], [])
    toolbox = make_toolbox(task.representation, lambda trees: trees, task.strategy, task.parameters)
    for name in ("archive", "measure", "parents", "combine"):
        toolbox.register(name, getattr(evaluator, name))
    found: dict[str, list[float]] = {"oob": [], "fitness": [], "formula": [], "committee": []}
    known: dict[Any, Floats] = {}

    def record(state: State) -> None:
        archive = evaluator.archive(state)
        bags = archive.selections(task.config.terms, False, task.config.seed)
        found["oob"].append(archive.out_of_bag_tau(bags, False, task.config.ties))
        best = max(state.front, key=lambda own: own.jcm)
        found["fitness"].append(best.jcm)
        factors = factors_of(best.tree) or []
        terms = dict.fromkeys(
            [term for term, _ in factors]
            + [archive.terms[index] for _, chosen in bags for index in chosen]
        )
        if new := [term for term in terms if term not in known]:
            logs = np.nan_to_num(held.logs(new), nan=LEAST_LOG, neginf=LEAST_LOG)
            known.update(zip(new, logs, strict=True))
        scores = sum(exponent * known[term] for term, exponent in factors)
        found["formula"].append(tau_of(held, np.asarray(scores)))
        votes = [
            PowerLawFit(archive.logs[chosen], archive.labelled, rows).exponents(range(len(chosen)))
            @ np.stack([known[archive.terms[index]] for index in chosen])
            for rows, chosen in bags
        ]
        found["committee"].append(tau_of(held, np.mean(votes, axis=0)))

    state = State(random.Random(task.config.seed))
    evolve_power_laws(toolbox, task.strategy, task.parameters, state, record)
    return {name: np.round(own, 4).tolist() for name, own in found.items()}


def tau_of(held: PowerLawEvaluator, scores: Floats) -> float:
    """Return the mean tau over the datasets of the logarithms of a power law."""
    return float(np.mean(held.labelled.taus(scores, "unordered")[0]))


def stop(values: Sequence[float], patience: int) -> int:
    """Return after which iteration evolution stops that awaits a better value for so long."""
    best = 0
    for index, own in enumerate(values):
        if own > values[best]:
            best = index
        if index - best >= patience:
            return index
    return len(values) - 1


def page() -> str:
    """Return the tables: taus after some iterations, and with rules that stop by themselves."""
    measured = read_object(MEASURED)
    spaces = [space for space in SPACES if space in measured]
    heads = [f"{space}, {kind}" for space in spaces for kind in ("formula", "committee")]
    lines = [
        f"| stop | {' | '.join(heads)} | mean formula | mean committee | iterations |",
        "|---" * (len(heads) + 4) + "|",
    ]
    rules = {f"after {step} iterations": partial(fixed, step=step) for step in STEPS}
    for name, title in (("oob", "out-of-bag tau"), ("fitness", "fitness")):
        for patience in PATIENCE:
            rules[f"{patience} iterations without a better {title}"] = partial(
                waiting, name=name, patience=patience
            )
    for title, rule in rules.items():
        means, spent = [], []
        for space in spaces:
            runs = list(measured[space].values())
            last = [rule(own) for own in runs]
            spent += last
            for kind in ("formula", "committee"):
                means.append(np.mean([own[kind][i] for own, i in zip(runs, last, strict=True)]))
        whole = (np.mean(means[::2]), np.mean(means[1::2]))
        cells = [f"{own:.3f}" for own in (*means, *whole)]
        lines.append(f"| {title} | {' | '.join(cells)} | {np.mean(spent):.1f} |")
    return "\n".join(lines)


def fixed(run: dict[str, list[float]], step: int) -> int:
    """Return the last iteration of a fixed number."""
    return min(step, len(run["oob"]) - 1)


def waiting(run: dict[str, list[float]], name: str, patience: int) -> int:
    """Return the last iteration by a value that must become better."""
    return stop(run[name], patience)


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("action", choices=("run", "page"))
    parser.add_argument("--spaces", default=",".join(SPACES))
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args()
    if given.action == "page":
        print(page())
        return
    known = read_object(MEASURED) if MEASURED.exists() else {}
    for split in range(given.splits):
        for space in given.spaces.split(","):
            own = known.setdefault(space, {})
            if str(split) not in own:
                own[str(split)] = measured(space, split)
                write_json(MEASURED, known)
                last = {name: values[-1] for name, values in own[str(split)].items()}
                print(space, split, last, flush=True)


if __name__ == "__main__":
    main()
