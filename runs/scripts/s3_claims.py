"""Whether S3's claims hold for small networks: better spaces, weights worth inheriting.

    python runs/scripts/s3_claims.py IMAGES OUT [--seeds 3] [--workers 2] [--epochs 3] ...

For each seed `autoprox s3` runs in OUT/seedN. Then the best network is searched in the space of
every round, and, with random ones of the last space, trained alone for as many epochs (the paper's
figure 5). OUT/claims.json gets all figures, and a table in Markdown is printed. Started again, it
goes on where it was stopped.
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from autoprox import runner
from autoprox.commands.s3_space_search import SEARCHED, SPACE, S3Task
from autoprox.configurations.supernets import S3Config
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.oneshot.s3.subnet_search import SubnetEvaluator, search_subnets
from autoprox.oneshot.supernet.shared_weights import CHECKPOINT_FILE, read_supernet
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.runs.folder import SUMMARY, Run
from autoprox.scoring.correlations import kendall
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.swin import SwinSpace


def options() -> argparse.Namespace:
    """The command line; what isn't said of S3 is published, or as `autoprox s3` has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the seed that is begun with")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--top", type=int, default=15)
    parser.add_argument("--limit", type=int, default=500, help="held-out images of a search")
    parser.add_argument("--alone", type=int, default=8, help="random networks trained alone")
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--flops", default=":5M")
    # The published .4 is of ImageNet, where a step changes less than here.
    parser.add_argument("--threshold", type=float, default=1.0)
    return parser.parse_args()


def run_of(given: argparse.Namespace, seed: int) -> Path:
    """The finished run of a seed; one that was begun goes on."""
    folder: Path = given.out / f"seed{seed}"
    if folder.exists() and (begun := sorted(folder.iterdir())):
        return Path(runner.resume_run(begun[0]).run)
    names = ("epochs", "rounds", "samples", "top", "limit", "flops", "threshold", "workers")
    chosen = {name: getattr(given, name) for name in names}
    config = S3Config(
        space="swin-nano",
        images=str(given.images),
        learning_rate=3e-3,
        drop_path=0.0,  # it is for longer trainings of deeper networks
        population=given.population,
        generations=given.generations,
        runs=str(folder),
        seed=seed,
        **chosen,
    )
    return Path(runner.start(config).run)


def spaces_of(run: Path, task: S3Task) -> list[SwinSpace]:
    """The spaces of all rounds."""
    found = []
    for folder in sorted(run.glob("round*")):
        options = read_object(folder / SPACE)
        found.append(task.space.with_options({name: tuple(o) for name, o in options.items()}))
    return found


def best_of(run: Path, task: S3Task, space: SwinSpace, number: int) -> tuple[Architecture, float]:
    """The best network of a round's space, and its error with inherited weights."""
    folder, config = run / f"round{number}", task.config
    evaluations = SubnetEvaluator(
        read_supernet(folder / CHECKPOINT_FILE, space),
        task.data,
        folder / SEARCHED,
        config.limit,
        WorkerPool(config.workers),
    )
    rng = random.Random(f"{config.seed} search")
    found = search_subnets(task.sampler(space), evaluations.errors, task.settings, rng)
    best = min(found, key=found.__getitem__)
    return best, found[best]


def alone(task: S3Task, space: SwinSpace, arch: Architecture, file: Path) -> float:
    """The accuracy of a network trained alone, from the file if it is there."""
    if not file.exists():
        with single_torch_thread():
            network = space.build(arch, task.data.classes, task.config.seed)
            task.recipe.train(network, task.data, task.config.seed)
            accuracy = task.recipe.score(network, task.data)
        write_json(file, {"arch": arch.to_json()["choices"], "accuracy": accuracy})
    return float(read_object(file)["accuracy"])


def alone_all(
    run: Path, task: S3Task, space: SwinSpace, architectures: Sequence[Architecture]
) -> list[float]:
    """The accuracies of networks trained alone, several at a time."""
    folder = run / "alone"
    folder.mkdir(exist_ok=True)
    calls = (
        delayed(alone)(task, space, arch, folder / f"{arch.digest[:16]}.json")
        for arch in architectures
    )
    return list(Parallel(n_jobs=task.config.workers)(calls))


def measured(given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All figures of a seed."""
    run = run_of(given, seed)
    config = runner.read_config(Run.open(run))
    if not isinstance(config, S3Config):
        raise SystemExit(f"{run} must be a run of s3")
    task = S3Task(config)
    spaces = spaces_of(run, task)
    bests = [best_of(run, task, space, number) for number, space in enumerate(spaces)]
    rng = random.Random(f"{seed} alone")
    drawn = task.sampler(spaces[-1]).sample(given.alone, rng)
    evaluations = SubnetEvaluator(
        read_supernet(run / f"round{len(spaces) - 1}" / CHECKPOINT_FILE, spaces[-1]),
        task.data,
        run / "inherited.jsonl",
        pool=WorkerPool(config.workers),
    )
    inherited = [100 - error for error in evaluations.errors(drawn)]
    trained = alone_all(run, task, spaces[-1], [*drawn, *(best for best, _ in bests)])
    tau = float(kendall(np.array(inherited), np.array(trained[: len(drawn)])))
    return {
        "seed": seed,
        "rounds": [
            {"error": row["error"], "expected": row["expected"], "top_tier": row["top_tier"]}
            for row in read_object(run / SUMMARY)["rounds"]
        ],
        "best_inherited": [100 - error for _, error in bests],
        "best_alone": trained[len(drawn) :],
        "inherited": inherited,
        "alone": trained[: len(drawn)],
        "tau": tau,
    }


def table(seeds: Sequence[Mapping[str, Any]]) -> str:
    """The means over the seeds, in Markdown."""
    lines = ["| space | E-T error | expected | top tier | best, inherited | best, alone |"]
    lines.append("|---" * 6 + "|")
    for number in range(len(seeds[0]["rounds"])):
        errors = [fmean(s["rounds"][number][n] for s in seeds) for n in seeds[0]["rounds"][0]]
        best = [fmean(s[name][number] for s in seeds) for name in ("best_inherited", "best_alone")]
        lines.append(f"| {number} | " + " | ".join(f"{x:.2f}" for x in (*errors, *best)) + " |")
    means = [fmean(fmean(s[name]) for s in seeds) for name in ("inherited", "alone")]
    taus = " ".join(f"{s['tau']:.2f}" for s in seeds)
    lines += ["", f"Random networks of the last space: inherited {means[0]:.2f}, trained alone"]
    return "\n".join(lines) + f" {means[1]:.2f}; tau of each seed {taus}"


def main() -> None:
    """Do what isn't done, and print."""
    given = options()
    order = [(given.first + place) % given.seeds for place in range(given.seeds)]
    files = [given.out / f"seed{seed}.json" for seed in range(given.seeds)]
    for seed in order:
        if not files[seed].exists():
            write_json(files[seed], measured(given, seed))
    seeds = [read_object(file) for file in files]
    write_json(given.out / "claims.json", {"seeds": seeds})
    print(table(seeds))


if __name__ == "__main__":
    main()
