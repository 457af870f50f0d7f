"""What PreNAS claims, tried at nano scale: `python runs/supernet/experiments.py OUT IMAGES`.

    claim    for each seed and size the accuracy of the best subnet after preferred, uniform and
             sandwich training, with the same number of steps, and of the preferred one alone
    isomers  the mean best rank (appendix A) of SNIP, both normalisers and every proxy of the zoo
             on groups of isomers, their truth inherited; and for some of them trained alone

OUT has a run for every training and measurement, and then claim.json and isomers.json. What is
there isn't done again: a stopped experiment goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import autoprox
from autoprox.files.atomic import write_json
from autoprox.inputs.datasets import Images, load_images
from autoprox.prenas.isomers import LayerScores, Layout
from autoprox.prenas.saliency import measure_saliency
from autoprox.prenas.selection import MATRICES, Selector
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import kendall
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.supernet.checkpoint import FILE, read_supernet
from autoprox.supernet.inherited import inherited_accuracies, inherited_table
from autoprox.tasks.base import read_config
from autoprox.tasks.rank import Rank, proxy_scores

DRAWS = 100_000
MARGIN = 0.8  # subnets of a size have more than this part of it
Score = Callable[[Architecture], float]


@dataclass(frozen=True)
class Experiment:
    """What all parts of it have in common."""

    out: Path
    images: Path
    space: SearchSpace
    sizes: str
    epochs: int
    candidates: int
    isomers: int
    alone: int
    proxies: tuple[str, ...]

    @property
    def data(self) -> Images:
        return load_images(self.images, self.space.input_shape)

    def done(self, function: Callable[..., Any], name: str, **options: Any) -> dict[str, Any]:
        """The summary of a run of this name: finished, gone on with, or begun."""
        for path in self.out.glob(f"*Z-{name}"):
            return dict(autoprox.resume(path, progress=False).to_dict())
        print(name, flush=True)
        return dict(function(runs=self.out, name=name, progress=False, **options).to_dict())

    def trained(self, name: str, sampler: str, seed: int, subnets: Path | None) -> dict[str, Any]:
        return self.done(
            autoprox.train_supernet,
            name,
            space=self.space.name,
            images=self.images,
            sampler=sampler,
            subnets=subnets,
            epochs=self.epochs,
            seed=seed,
        )

    def trained_alone(self, arch: Architecture, seed: int) -> dict[str, Any]:
        """The run in which a subnet had the supernet to itself."""
        file = self.out / f"{arch.digest[:16]}.json"
        write_json(file, [{"arch": arch.to_json()["choices"]}])
        return self.trained(f"alone-{arch.digest[:16]}-{seed}", "single", seed, file)

    def accuracies(self, run: str, architectures: Sequence[Architecture]) -> list[float]:
        """What they inherit."""
        supernet = read_supernet(Path(run) / FILE, self.space)
        return inherited_accuracies(supernet, self.data, architectures, workers=2)


def claim(experiment: Experiment, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each size and training."""
    chosen = experiment.done(
        autoprox.prefer,
        f"prenas-{seed}",
        space=experiment.space.name,
        sizes=experiment.sizes,
        dataset="cifar10",
        seed=seed,
    )
    for sampler in ("preferred", "uniform", "sandwich"):
        subnets = Path(chosen["file"]) if sampler == "preferred" else None
        run = experiment.trained(f"{sampler}-{seed}", sampler, seed, subnets)["run"]
        for row in chosen["preferred"]:
            own = experiment.space.architecture(row["arch"])
            inherited, best = best_below(experiment, run, own, row["size"], seed)
            found = inherited if sampler == "preferred" else best
            shared = {"seed": seed, "size": row["size"], "preferred_one": inherited}
            yield {**shared, "training": sampler, "accuracy": found}
    for row in chosen["preferred"]:
        own = experiment.space.architecture(row["arch"])
        run = experiment.trained_alone(own, seed)["run"]
        _, [accuracy] = in_halves(experiment, run, [own])
        yield {"seed": seed, "size": row["size"], "training": "alone", "accuracy": accuracy}


def best_below(
    experiment: Experiment, run: str, own: Architecture, size: int, seed: int
) -> tuple[float, float]:
    """The accuracy of an architecture, and of the best of random ones of its size.

    The best is chosen by one half of the held-out images, and judged by the other, as all are.
    """
    rng, data = random.Random(seed), experiment.data
    drawn = (experiment.space.sample(rng) for _ in range(DRAWS))
    fitting = (a for a in drawn if MARGIN * size < experiment.space.params(a, data.classes) < size)
    candidates = [own, *(a for a, _ in zip(fitting, range(experiment.candidates), strict=False))]
    first, second = in_halves(experiment, run, candidates)
    return second[0], second[int(np.argmax(first))]


def in_halves(
    experiment: Experiment, run: str, architectures: Sequence[Architecture]
) -> tuple[list[float], list[float]]:
    """The accuracies that a run's subnets have on either half of the held-out images."""
    supernet, data = read_supernet(Path(run) / FILE, experiment.space), experiment.data
    halves = []
    for begin in (0, 1):
        images, labels = data.held_out_images[begin::2], data.held_out_labels[begin::2]
        half = Images(data.name, data.classes, data.images, data.labels, images, labels)
        halves.append(inherited_accuracies(supernet, half, architectures, workers=2))
    return halves[0], halves[1]


def isomer_groups(experiment: Experiment, seed: int) -> dict[str, list[Architecture]]:
    """Of both cases of appendix A: one field varies among the layers, the other is the greatest.

    Groups have the greatest depth and each width, and half of the steps from the least option to
    the greatest.
    """
    layout, rng = Layout(experiment.space), random.Random(seed)
    depth = experiment.space.largest()[layout.depth]
    groups: dict[str, list[Architecture]] = {}
    for network in layout.options(*layout.networks):
        for place, field in enumerate(layout.layers):
            options = sorted(experiment.space.fields[field].options[0])
            greatest = [max(experiment.space.fields[n].options[0]) for n in layout.layers]
            values = [options[i * len(options) // depth] for i in range(depth)]
            found: dict[Architecture, None] = {}
            for _ in range(50 * experiment.isomers):
                rng.shuffle(values)
                layers = [(*greatest[:place], v, *greatest[place + 1 :]) for v in values]
                found[layout.architecture(network, layers)] = None
                if len(found) == experiment.isomers:
                    break
            groups[f"{field} at {network}"] = list(found)
    return groups


def mean_best_rank(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """sum(r - 1) / sum(n - 1) over groups of (scores, truth): r is the true rank of the pick."""
    ranks = [sum(t > truth[int(np.argmax(s))] for t in truth) for s, truth in groups]
    return sum(ranks) / sum(len(truth) - 1 for _, truth in groups)


def snip_scores(experiment: Experiment, seed: int) -> dict[str, Score]:
    """SNIP, and what both normalisers make of it, of one random supernet."""
    saliency = measure_saliency(experiment.space, experiment.data.classes, seed=seed)
    layout = Layout(experiment.space)
    sums = layout.sums(saliency)
    released = {
        name: 1 / size if name.endswith(MATRICES) else 0.0
        for name, size in saliency.magnitudes.items()
    }
    selector = Selector(saliency, "paper")
    return {
        "slices: SNIP": selector.snip.score,
        "slices: normalised as in the paper": selector.normalised.score,
        "slices: normalised as released": LayerScores(saliency, layout, sums, released).score,
    }


def isomers(experiment: Experiment, seed: int) -> dict[str, Any]:
    """The mean best rank of every proxy, and how well inherited accuracy ranks."""
    run = experiment.trained(f"uniform-{seed}", "uniform", seed, None)["run"]
    groups = isomer_groups(experiment, seed)
    every = list(dict.fromkeys(arch for group in groups.values() for arch in group))
    accuracies = experiment.accuracies(run, every)
    truth = dict(zip(every, accuracies, strict=True))
    scores = {
        name: dict(zip(every, map(score, every), strict=True))
        for name, score in snip_scores(experiment, seed).items()
    }
    scores |= zoo_scores(experiment, seed, run, every, accuracies)
    chosen = random.Random(seed).sample(every, min(experiment.alone, len(every)))
    summaries = [experiment.trained_alone(arch, seed) for arch in chosen]
    alone = [summary["subnets"][0]["accuracy"] for summary in summaries]
    inherited = np.array([truth[arch] for arch in chosen])
    return {
        "seed": seed,
        "groups": {name: len(group) for name, group in groups.items()},
        "span": fmean(_span([truth[a] for a in group]) for group in groups.values()),
        "mean_best_rank": {
            name: {field: _rank(own, truth, groups, field) for field in ("", *_fields(groups))}
            for name, own in scores.items()
        },
        "tau_inherited_alone": float(kendall(inherited, np.array(alone))),
        "alone": list(zip(inherited.tolist(), alone, strict=True)),
    }


def zoo_scores(
    experiment: Experiment,
    seed: int,
    run: str,
    architectures: Sequence[Architecture],
    accuracies: Sequence[float],
) -> dict[str, dict[Architecture, float]]:
    """Those of the zoo, of networks of their own weights; what isn't finite comes last."""
    file = experiment.out / f"isomers-{seed}.json"
    supernet, data = read_supernet(Path(run) / FILE, experiment.space), experiment.data
    if not file.exists():
        name = f"isomers-{seed}"
        write_json(file, inherited_table(name, supernet, data, architectures, accuracies, {}))
    summary = experiment.done(
        autoprox.rank,
        f"rank-{seed}",
        benchmark=file,
        proxies=experiment.proxies,
        images=experiment.images,
        seed=seed,
    )
    folder = Run.open(Path(summary["run"]))
    ranking = Rank(read_config(folder))  # type: ignore[arg-type]
    found = {}
    for proxy in ranking.config.proxies:
        values = proxy_scores(ranking, folder.read_log(), proxy, data.name)[0]
        values = np.where(np.isfinite(values), values, -np.inf)
        found[proxy] = dict(zip(architectures, values.tolist(), strict=True))
    return found


def _fields(groups: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys(name.split(" at ")[0] for name in groups))


def _span(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _rank(
    scores: Mapping[Architecture, float],
    truth: Mapping[Architecture, float],
    groups: Mapping[str, Sequence[Architecture]],
    field: str,
) -> float:
    """Of the groups in which this field varies; of all for none."""
    own = [group for name, group in groups.items() if name.startswith(field) and len(group) > 1]
    return mean_best_rank([([scores[a] for a in g], [truth[a] for a in g]) for g in own])


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The mean accuracy of each size and training over the seeds."""
    for size in sorted({row["size"] for row in rows}):
        of_size = [row for row in rows if row["size"] == size]
        for training in dict.fromkeys(row["training"] for row in of_size):
            own = [row["accuracy"] for row in of_size if row["training"] == training]
            spread = np.std(own, ddof=1) if len(own) > 1 else float("nan")
            print(f"{size:>9}  {training:10} {fmean(own):6.2f} +- {spread:.2f}  ({len(own)} seeds)")


def main() -> None:
    """Do what is asked for, a seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--part", choices=("claim", "isomers", "all"), default="all")
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument("--sizes", default="20K:100K:20K")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--isomers", type=int, default=200, help="of each group, at most")
    parser.add_argument("--alone", type=int, default=24, help="isomers to train alone")
    parser.add_argument("--proxies", default="all", help="separated by commas")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    experiment = Experiment(
        *(given.out, given.images.absolute(), get_space(given.space), given.sizes, given.epochs),
        *(given.candidates, given.isomers, given.alone, tuple(given.proxies.split(","))),
    )
    if given.part != "isomers":
        rows = [row for seed in range(given.seeds) for row in claim(experiment, seed)]
        write_json(given.out / "claim.json", rows)
        show(rows)
    if given.part != "claim":
        found = [isomers(experiment, seed) for seed in range(given.seeds)]
        write_json(given.out / "isomers.json", found)
        print(json.dumps(found[0]["mean_best_rank"], indent=2))


if __name__ == "__main__":
    main()
