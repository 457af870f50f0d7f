"""Which power law to choose and how long to evolve, by nested cross-validation on training parts.

    python runs/scripts/choose_stopping.py run [--spaces gpt2-nano] [--splits 10]
    python runs/scripts/choose_stopping.py page

Of the training part of each split, 70 % are evolved on, and the others give the tau, after each
iteration, of the fittest formula and of the committee, whose members are chosen on random parts of
the former; their tau on what is left of it is the out-of-bag tau. After every fifth iteration
follow formulas that imitate the committee's scores, and the one that forward selection chooses on
all of the former. No label of a test part is read. `run` keeps runs/measured/stopping.json; `page`
prints the tables of docs/results/selection.md.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from choose_power_law import CHOOSING, INNER

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.fitness_evaluator import MeasuredNetworks
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, reseeded_indices
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evolution import State, make_toolbox
from autoprox.evolution.power_law import LEAST_LOG, LabelledNetworks, PowerLawFit, factors_of
from autoprox.evolution.power_law_loop import evolve_power_laws
from autoprox.evolution.term_archive import TermArchive
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.language import Tree
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import Floats, Indices, normal_scores

MEASURED = Path(__file__).parents[2] / "runs" / "measured" / "stopping.json"
ITERATIONS, EVERY = 30, 5
PATIENCE = (3, 5, 8)
STEPS = (1, 6, 11, 16, 21, 26, 30)  # iterations with their imitations
TERMS, PENALTIES = (8, 12), (2, 20)
IMITATED = {
    "mean": "the committee's scores",
    "oob": "each network's scores by the members that didn't see it",
    "normal": "normal scores of the committee's ranks",
    "half": "the mean of these and of the labels' normal scores",
}
CHOSEN = "mean, 8 terms, penalty 2"
SELECTED = "labels, 8 terms"
Bags = Sequence[tuple[Indices, list[int]]]
Curves = dict[str, list[float]]


class HeldNetworks:
    """The networks on which nothing is fitted, and the terms that were measured on them."""

    def __init__(self, config: EvolveConfig, networks: MeasuredNetworks) -> None:
        self._evaluator = PowerLawEvaluator(config, [networks], [])
        self._logs: dict[Tree, Floats] = {}

    def logs(self, terms: Sequence[Tree]) -> Floats:
        """Return the logarithms of terms [terms, rows]."""
        if new := [term for term in terms if term not in self._logs]:
            values = np.nan_to_num(self._evaluator.logs(new), nan=LEAST_LOG, neginf=LEAST_LOG)
            self._logs.update(zip(new, values, strict=True))
        return np.stack([self._logs[term] for term in terms])

    def tau(self, terms: Sequence[Tree], exponents: Sequence[float] | Floats) -> float:
        """Return the mean tau over the datasets of a power law."""
        return self.tau_of(np.asarray(exponents) @ self.logs(terms))

    def tau_of(self, scores: Floats) -> float:
        """Return the mean tau over the datasets of the logarithms of a power law."""
        return float(np.mean(self._evaluator.labelled.taus(scores, "unordered")[0]))


def networks_of(problem: SpaceProblem, source: Any, chosen: Indices) -> MeasuredNetworks:
    """Return some networks of a problem, whose statistics were collected."""
    return problem.measured_networks([(TreeEvaluator(source(chosen)), chosen)])


def measured(space: str, split: int) -> Curves:
    """Return the taus after each iteration, the first of which is that of the random terms."""
    task = EvolveTask(EvolveConfig(space=space, zoo=("none",), iterations=ITERATIONS, workers=1))
    config = task.config
    [problem] = task.problems.values()
    train, _ = split_networks(len(problem.benchmark.architectures), split, config.train)
    part, _ = split_networks(len(train), 1000 + split, INNER)
    inner, outer = train[part], np.setdiff1d(train, train[part])
    collect = partial(problem.collect, task.needs(), memory=config.memory)
    few = inner[reseeded_indices(len(inner), 1)]
    again = partial(collect, seed=config.seed + 1)
    evaluator = PowerLawEvaluator(
        config, [networks_of(problem, collect, inner)], [networks_of(problem, again, few)]
    )
    held = HeldNetworks(config, networks_of(problem, collect, outer))
    toolbox = make_toolbox(task.representation, lambda trees: [], task.strategy, task.parameters)
    for name in ("archive", "measure", "parents", "combine"):
        toolbox.register(name, getattr(evaluator, name))
    found: Curves = {}

    def record(state: State) -> None:
        archive = evaluator.archive(state)
        bags = archive.selections(config.terms, False, config.seed)
        best = max(state.front, key=lambda own: own.jcm)
        terms, exponents = zip(*(factors_of(best.tree) or []), strict=True)
        votes = [
            PowerLawFit(archive.logs[chosen], archive.labelled, rows).exponents(range(len(chosen)))
            @ held.logs([archive.terms[index] for index in chosen])
            for rows, chosen in bags
        ]
        now = {
            "oob": out_of_bag_tau(archive, bags, config.ties),
            "fitness": best.jcm,
            "formula": held.tau(terms, exponents),
            "committee": held.tau_of(np.mean(votes, axis=0)),
        }
        if len(found.get("oob", ())) % EVERY == 0 or state.iteration == ITERATIONS:
            now |= imitations(archive, bags, held)
        for name, value in now.items():
            found.setdefault(name, []).append(round(value, 4))

    state = State(random.Random(config.seed))
    evolve_power_laws(toolbox, task.strategy, task.parameters, state, record)
    return found


def out_of_bag_tau(archive: TermArchive, bags: Bags, ties: str) -> float:
    """Return the mean tau of power laws on the networks that didn't choose their terms."""
    found = []
    for rows, chosen in bags:
        fit = PowerLawFit(archive.logs[chosen], archive.labelled, rows)
        rest = np.setdiff1d(np.arange(len(archive.labelled.truth)), rows)
        scores = fit.predictions(range(len(chosen)))[rest]
        found.append(np.mean(archive.labelled.only(rest).taus(scores, ties)[0]))
    return float(np.mean(found))


def imitations(archive: TermArchive, bags: Bags, held: HeldNetworks) -> dict[str, float]:
    """Return the taus of single power laws that imitate the committee, or that labels choose."""
    labelled, every = archive.labelled, np.arange(len(archive.labelled.truth))
    members = np.empty((len(bags), len(every)))
    unseen = np.full(members.shape, np.nan)
    for member, (rows, chosen) in enumerate(bags):
        fit = PowerLawFit(archive.logs[chosen], labelled, rows)
        members[member] = fit.predictions(range(len(chosen)))
        rest = np.setdiff1d(every, rows)
        unseen[member, rest] = members[member, rest]
    known = np.isfinite(unseen)
    normal = members.mean(axis=0)
    for own in labelled.pairs:
        normal[own] = normal_scores(normal[own])
    targets = {
        "mean": members.mean(axis=0),
        "oob": np.where(known, unseen, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1),
        "normal": normal,
        "half": (normal + labelled.target) / 2,
    }
    union = list(dict.fromkeys(index for _, chosen in bags for index in chosen))

    def tau(
        among: Sequence[int], networks: LabelledNetworks, count: int, ridge: float | None = None
    ) -> float:
        fit = PowerLawFit(archive.logs[list(among)], networks, every, ridge=ridge)
        chosen = fit.forward_selection(count)
        return held.tau([archive.terms[among[i]] for i in chosen], fit.exponents(chosen))

    found = {
        f"{name}, {count} terms, penalty {penalty}": tau(
            union, replace(labelled, target=targets[name]), count, ridge=float(penalty)
        )
        for name, count, penalty in product(targets, TERMS, PENALTIES)
    }
    whole = range(len(archive))
    return found | {f"labels, {count} terms": tau(whole, labelled, count) for count in TERMS}


def stop(values: Sequence[float], patience: int) -> int:
    """Return the iteration at which evolution stops that waits so long for a better value."""
    best = 0
    for index, own in enumerate(values):
        if own > values[best]:
            best = index
        if index - best >= patience:
            return index
    return len(values) - 1


def page() -> str:
    """Return the tables: what to choose, and when to stop."""
    known = read_object(MEASURED)
    spaces = [space for space in CHOOSING if space in known]
    runs = {space: list(known[space].values()) for space in spaces}
    heads = ["tau", *spaces, "mean"]

    def mean(space: str, name: str, step: int) -> float:
        return float(np.mean([own[name][min(step, len(own[name]) - 1)] for own in runs[space]]))

    lines = [_line(heads), _line(["---"] * len(heads))]
    names = ("formula", "committee", *(n for n in runs[spaces[0]][0] if n.count(",")))
    for name in names:
        step = 10 // (EVERY if name.count(",") else 1)
        title = {"formula": "the fittest formula", "committee": "the committee"}.get(name, name)
        lines.append(_row(title, [mean(space, name, step) for space in spaces]))
    heads = ["after iterations", *(f"{s}, {k}" for s in spaces for k in ("nearest", "committee"))]
    lines += ["", _line([*heads, "mean nearest", "mean committee"])]
    lines.append(_line(["---"] * (len(heads) + 2)))
    for place, step in enumerate(STEPS):
        pairs = [(mean(s, CHOSEN, place), mean(s, "committee", step - 1)) for s in spaces]
        lines.append(_line([str(step - 1), *(f"{v:.3f}" for v in _with_means(pairs))]))
    heads = ["stop the committee", *spaces, "mean", "iterations"]
    lines += ["", _line(heads), _line(["---"] * len(heads))]
    for name, title in (("oob", "out-of-bag tau"), ("fitness", "fitness")):
        for patience in PATIENCE:
            last = {s: [stop(own[name], patience) for own in runs[s]] for s in spaces}
            taus = [
                float(np.mean([r["committee"][i] for r, i in zip(runs[s], last[s], strict=True)]))
                for s in spaces
            ]
            spent = np.mean([i for own in last.values() for i in own])
            row = _row(f"after {patience} iterations without a better {title}", taus)
            lines.append(f"{row} {spent:.1f} |")
    return "\n".join(lines)


def _with_means(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [*(value for own in pairs for value in own), *map(float, np.mean(pairs, axis=0))]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(title: str, taus: Sequence[float]) -> str:
    return _line([title, *(f"{own:.3f}" for own in (*taus, float(np.mean(taus))))])


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("action", choices=("run", "page"))
    parser.add_argument("--spaces", default=",".join(CHOOSING))
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args()
    if given.action == "page":
        print(page())
        return
    known: dict[str, Mapping[str, Any]] = read_object(MEASURED) if MEASURED.exists() else {}
    for split in range(given.splits):
        for space in given.spaces.split(","):
            own = dict(known.get(space, {}))
            if str(split) not in own:
                own[str(split)] = measured(space, split)
                known[space] = own
                write_json(MEASURED, known)
                last = {name: values[-1] for name, values in own[str(split)].items()}
                print(space, split, last, flush=True)


if __name__ == "__main__":
    main()
