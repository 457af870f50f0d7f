"""Compares kinds of successive halving: `python tests/bench/halving.py [--seeds 3] [--minutes 1]`.

Evolves on PiT and two nano spaces with the first measurement on all training networks, on a quarter
and on an eighth of them, each for as much processor time after collection, and prints the fitness
of the best formula on all training networks, by seed, as JSON.
"""

import argparse
import json
import os
import random
import sys
import time
from contextlib import suppress

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.evaluation.successive_halving import SuccessiveHalving
from autoprox.evolution import STRATEGIES, State, evolve, make_toolbox

SPACES = ("pit", "autoformer-nano", "pit-nano")
STEPS = {"all": (1,), "a quarter": (4, 2, 1), "an eighth": (8, 4, 2, 1)}


class TimeUpError(Exception):
    """The processor time is spent."""


def best(steps: tuple[int, ...], seed: int, minutes: float) -> dict[str, float]:
    """Return the best fitness of an evolution, and the number of formulas it evaluated."""
    task = EvolveTask(EvolveConfig(form="tree", spaces=SPACES, seed=0, workers=1, iterations=10**6))
    for name, problem in task.problems.items():
        train, taken = problem.parts["train"], 0
        task.parts[name] = []
        for share in steps:
            count = len(train) // share
            task.parts[name].append(train[taken:count])
            taken = count
    (plan,) = task.folds
    memory = task.config.memory // (len(SPACES) * len(steps))
    sources = {
        name: [problem.collect(task.needs(), part, memory) for part in task.parts[name]]
        for name, problem in task.problems.items()
    }
    evaluators = task.evaluators(plan, sources)
    toolbox = make_toolbox(
        task.representation,
        SuccessiveHalving(evaluators).evaluate,
        STRATEGIES[task.config.strategy],
        task.config,
    )
    state, start = State(random.Random(seed)), time.process_time()

    def record(state: State) -> None:
        if time.process_time() - start > 60 * minutes:
            raise TimeUpError

    with suppress(TimeUpError):
        evolve(toolbox, STRATEGIES[task.config.strategy], task.config, state, record)
    return {"fitness": state.population[0].jcm, "formulas": state.evaluations}


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1.5)
    options = parser.parse_args()
    found = {}
    for name, steps in STEPS.items():
        found[name] = [best(steps, seed, options.minutes) for seed in range(options.seeds)]
        print(name, found[name], file=sys.stderr, flush=True)
    about = {"command": ["tests/bench/halving.py", *sys.argv[1:]], "cores": os.cpu_count()}
    print(json.dumps({**about, **found}, indent=1))


if __name__ == "__main__":
    main()
