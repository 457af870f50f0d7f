"""What PreNAS claims, tried at nano scale: `python runs/scripts/prenas_claims.py OUT IMAGES`.

    claim    for each seed and size the accuracy of the best subnet after preferred, uniform and
             sandwich training, with the same number of steps, and of the preferred one alone
    isomers  the mean best rank (appendix A) of SNIP, both normalisers and every proxy of the zoo
             on groups of isomers by inherited accuracies
    alone    how inherited accuracies rank some of these isomers, each trained alone

OUT has a run for every training and measurement, and PART-SEED.json. What is there isn't
done again: a stopped experiment goes on where it was.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from statistics import pstdev
from typing import Any

import numpy as np
from scipy.stats import rankdata

import autoprox
from autoprox.commands.rank import RankLogLine, RankTask
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.inputs.training_datasets import ImageDataset, load_images
from autoprox.oneshot.prenas.isomer_selection import (
    NORMALISED_MATRICES,
    IsomerFields,
    IsomerSelector,
    LayerScores,
    OptionValues,
)
from autoprox.oneshot.prenas.supernet_saliency import measure_saliency
from autoprox.oneshot.supernet.inherited_accuracy import inherited_accuracies, inherited_table
from autoprox.oneshot.supernet.shared_weights import CHECKPOINT_FILE, read_supernet
from autoprox.oneshot.supernet.training import SupernetRecipe
from autoprox.parallel.threads import single_torch_thread
from autoprox.runner import read_config
from autoprox.runs.folder import Run
from autoprox.scoring.correlations import kendall_unordered_ties
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.training.recipes import accuracy

DRAWS = 100_000
MARGIN = 0.8  # subnets of a size have more than this part of it
CHOOSING = 1_000  # held-out images by which the best is chosen; the others judge it
TRUTH = 2_000  # held-out images that inherited accuracies of isomers are of
Score = Callable[[Architecture], float]


@dataclass(frozen=True)
class Experiment:
    """What all parts of it have in common."""

    out: Path
    images: Path
    space: SearchSpace
    sizes: str
    training: Mapping[str, Any]
    candidates: int
    width: int
    isomers: int
    alone: int
    proxies: tuple[str, ...]

    @cached_property
    def data(self) -> ImageDataset:
        return load_images(self.images, self.space.input_shape)

    def done(self, function: Callable[..., Any], name: str, **options: Any) -> dict[str, Any]:
        """The summary of a run of this name: finished, gone on with, or begun."""
        for path in self.out.glob(f"*Z-{name}"):
            return dict(autoprox.resume(path, progress=False).to_dict())
        print(name, flush=True)
        return dict(function(runs=self.out, name=name, progress=False, **options).to_dict())

    def trained(self, name: str, sampler: str, seed: int, subnets: Path | None) -> dict[str, Any]:
        return self.done(
            autoprox.supernet_train,
            name,
            space=self.space.name,
            images=self.images,
            sampler=sampler,
            subnets=subnets,
            seed=seed,
            **self.training,
        )

    def trained_alone(self, arch: Architecture, seed: int) -> dict[str, Any]:
        """The accuracies of a plain network, of weights of its own, trained by the same recipe."""
        file = self.out / "alone" / f"{arch.digest[:16]}-{seed}.json"
        if not file.exists():
            print(file.stem, flush=True)
            file.parent.mkdir(exist_ok=True)
            recipe, data = SupernetRecipe(**self.training), self.data
            with single_torch_thread():
                network = self.space.build(arch, data.classes, seed)
                recipe.train(network, data, seed)
                judged = data.held_out_images[CHOOSING:], data.held_out_labels[CHOOSING:]
                found = {"all": recipe.score(network, data), "judged": accuracy(network, *judged)}
            write_json(file, {"arch": arch.to_json()["choices"], **found})
        return read_object(file)

    def accuracies(
        self, run: str, architectures: Sequence[Architecture], part: slice
    ) -> list[float]:
        """What they inherit, on a part of the held-out images."""
        supernet, data = read_supernet(Path(run) / CHECKPOINT_FILE, self.space), self.data
        images, labels = data.held_out_images[part], data.held_out_labels[part]
        own = ImageDataset(data.name, data.classes, data.images, data.labels, images, labels)
        return inherited_accuracies(supernet, own, architectures)


def claim(experiment: Experiment, seed: int) -> list[dict[str, Any]]:
    """A row for each size and training."""
    rows = []
    chosen = experiment.done(
        autoprox.prenas,
        f"prenas-{seed}",
        space=experiment.space.name,
        sizes=experiment.sizes,
        dataset="cifar10",
        seed=seed,
    )
    preferred = [
        (row["size"], experiment.space.architecture(row["arch"])) for row in chosen["preferred"]
    ]
    for sampler in ("preferred", "uniform", "sandwich"):
        subnets = Path(chosen["file"]) if sampler == "preferred" else None
        run = experiment.trained(f"{sampler}-{seed}", sampler, seed, subnets)["run"]
        for size, own in preferred:
            found = [own]
            if sampler != "preferred":
                found.append(best_below(experiment, run, size, seed))
            worth = experiment.accuracies(run, found, slice(CHOOSING, None))
            shared = {"seed": seed, "size": size, "preferred_one": worth[0]}
            rows.append({**shared, "training": sampler, "accuracy": worth[-1]})
    for size, own in preferred:
        found = experiment.trained_alone(own, seed)["judged"]
        rows.append({"seed": seed, "size": size, "training": "alone", "accuracy": found})
    return rows


def best_below(experiment: Experiment, run: str, size: int, seed: int) -> Architecture:
    """The best of random architectures of a size, by the first held-out images."""
    rng, space, classes = random.Random(seed), experiment.space, experiment.data.classes
    drawn = (space.sample(rng) for _ in range(DRAWS))
    fitting = (arch for arch in drawn if MARGIN * size < space.params(arch, classes) < size)
    candidates = list(islice(fitting, experiment.candidates))
    accuracies = experiment.accuracies(run, candidates, slice(CHOOSING))
    return candidates[int(np.argmax(accuracies))]


def isomer_groups(experiment: Experiment, seed: int) -> dict[str, list[Architecture]]:
    """Architectures of one width and the greatest depth, by the field that varies.

    As in both cases of appendix A one field varies among the layers, its sum half way between the
    least and the greatest, and the other is the greatest; in a third group both vary.
    """
    layout, rng = IsomerFields(experiment.space), random.Random(seed)
    depth = experiment.space.largest()[layout.depth]
    varied: dict[str, list[OptionValues]] = {}
    for field in layout.layers:
        options = sorted(experiment.space.fields[field].options[0])
        ranks = product(range(len(options)), repeat=depth)
        half = depth * (len(options) - 1) // 2
        varied[field] = [tuple(options[i] for i in own) for own in ranks if sum(own) == half]
    groups: dict[str, list[Architecture]] = {}
    for own in (*((field,) for field in layout.layers), tuple(layout.layers)):
        columns = [
            varied[n] if n in own else [(max(experiment.space.fields[n].options[0]),) * depth]
            for n in layout.layers
        ]
        combined = list(product(*columns))
        chosen = rng.sample(combined, min(experiment.isomers, len(combined)))
        layers = (list(zip(*one, strict=True)) for one in chosen)
        groups[" and ".join(own)] = [layout.architecture((experiment.width,), o) for o in layers]
    return groups


def mean_best_rank(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """sum(r - 1) / sum(n - 1) over groups of (scores, truth): r is the true rank of the pick.

    Of several that score most it is their mean rank.
    """
    picks = [rankdata(-np.array(truth))[np.array(s) == max(s)].mean() for s, truth in groups]
    return float(sum(r - 1 for r in picks) / sum(len(truth) - 1 for _, truth in groups))


def snip_scores(experiment: Experiment, seed: int) -> dict[str, Score]:
    """SNIP, and what both normalisers make of it, of one random supernet."""
    saliency = measure_saliency(experiment.space, experiment.data.classes, seed=seed)
    layout = IsomerFields(experiment.space)
    sums = layout.sums(saliency)
    released = {
        name: 1 / size if name.endswith(NORMALISED_MATRICES) else 0.0
        for name, size in saliency.magnitudes.items()
    }
    selector = IsomerSelector(saliency, "paper")
    return {
        "slices: SNIP": selector.snip.score,
        "slices: normalised as in the paper": selector.normalised.score,
        "slices: normalised as released": LayerScores(saliency, layout, sums, released).score,
    }


def isomers(experiment: Experiment, seed: int) -> dict[str, Any]:
    """The mean best rank of every proxy by inherited accuracies."""
    run = experiment.trained(f"uniform-{seed}", "uniform", seed, None)["run"]
    groups = isomer_groups(experiment, seed)
    every = [arch for group in groups.values() for arch in group]
    truth = inherited(experiment, seed, run, every)
    scores = all_scores(experiment, seed, every)
    return {
        "seed": seed,
        "groups": {
            name: {"isomers": len(group), "deviation": pstdev(truth[a] for a in group)}
            for name, group in groups.items()
        },
        "mean_best_rank": {
            name: {
                field: mean_best_rank([([own[a] for a in group], [truth[a] for a in group])])
                for field, group in groups.items()
            }
            for name, own in scores.items()
        },
        "tau": {
            name: {
                field: _tau([own[a] for a in group], [truth[a] for a in group])
                for field, group in groups.items()
            }
            for name, own in scores.items()
        },
    }


def inherited(
    experiment: Experiment, seed: int, run: str, architectures: Sequence[Architecture]
) -> dict[Architecture, float]:
    """Their inherited accuracies, which a table has; it is made where there is none."""
    file = experiment.out / f"table-{seed}.json"
    if not file.exists():
        accuracies = experiment.accuracies(run, architectures, slice(TRUTH))
        supernet = read_supernet(Path(run) / CHECKPOINT_FILE, experiment.space)
        name = f"isomers-{seed}"
        table = inherited_table(name, supernet, experiment.data, architectures, accuracies, {})
        write_json(file, table)
    rows = read_object(file)["architectures"]
    return {
        experiment.space.architecture(row["arch"]): row["scores"][experiment.data.name]
        for row in rows
    }


def alone(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Training alone of some isomers of each group, and what ranks it how well."""
    run = experiment.trained(f"uniform-{seed}", "uniform", seed, None)["run"]
    groups = isomer_groups(experiment, seed)
    every = [arch for group in groups.values() for arch in group]
    truth = inherited(experiment, seed, run, every)
    scores = all_scores(experiment, seed, every)
    picked: dict[str, list[tuple[Sequence[float], Sequence[float]]]] = {n: [] for n in scores}
    each = experiment.alone // len(groups)
    found: dict[str, dict[str, Any]] = {}
    for name, group in groups.items():
        chosen = random.Random(seed).sample(group, each)
        own = [experiment.trained_alone(arch, seed)["all"] for arch in chosen]
        had = [truth[arch] for arch in chosen]
        found[name] = {"inherited": had, "alone": own, "tau": _tau(had, own)}
        for proxy, values in scores.items():
            picked[proxy].append(([values[arch] for arch in chosen], own))
    had, own = ([x for g in found.values() for x in g[name]] for name in ("inherited", "alone"))
    ranks = {proxy: mean_best_rank(pairs) for proxy, pairs in picked.items()}
    return {"seed": seed, "groups": found, "tau": _tau(had, own), "mean_best_rank": ranks}


def all_scores(
    experiment: Experiment, seed: int, architectures: Sequence[Architecture]
) -> dict[str, dict[Architecture, float]]:
    """Those of SNIP, of what the normalisers make of it, and of the zoo."""
    found = {
        name: {arch: score(arch) for arch in architectures}
        for name, score in snip_scores(experiment, seed).items()
    }
    return found | zoo_scores(experiment, seed, architectures)


def zoo_scores(
    experiment: Experiment, seed: int, architectures: Sequence[Architecture]
) -> dict[str, dict[Architecture, float]]:
    """Those of the zoo, of networks of their own weights; what isn't finite comes last."""
    summary = experiment.done(
        autoprox.rank,
        f"rank-{seed}",
        benchmark=experiment.out / f"table-{seed}.json",
        proxies=experiment.proxies,
        images=experiment.images,
        seed=seed,
    )
    folder = Run.open(Path(summary["run"]))
    ranking = RankTask(read_config(folder))  # type: ignore[arg-type]
    lines, found = folder.read_log_as(RankLogLine), {}
    for proxy in ranking.config.proxies:
        values = ranking.scores(lines, proxy, experiment.data.name)[0]
        values = np.where(np.isfinite(values), values, -np.inf)
        found[proxy] = dict(zip(architectures, values.tolist(), strict=True))
    return found


def _tau(scores: Sequence[float], truth: Sequence[float]) -> float:
    found = float(kendall_unordered_ties(np.array(scores), np.array(truth)))
    return found if math.isfinite(found) else 0.0


def main() -> None:
    """Do what is asked for, a seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--part", choices=("claim", "isomers", "alone", "all"), default="all")
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument("--sizes", default="20K:100K:20K")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--candidates", type=int, default=50, help="random ones of each size")
    parser.add_argument("--width", type=int, default=32, help="of the isomers")
    parser.add_argument("--isomers", type=int, default=200, help="of each group, at most")
    parser.add_argument("--alone", type=int, default=24, help="isomers to train alone")
    parser.add_argument("--alone-seeds", type=int, default=3)
    parser.add_argument("--proxies", default="all", help="separated by commas")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    # Stochastic depth is for longer trainings of deeper networks.
    training = {
        **{"epochs": given.epochs, "learning_rate": given.learning_rate},
        **{"drop_path": 0.0, "label_smoothing": 0.1, "batch_size": 64},
    }
    experiment = Experiment(
        *(given.out, given.images.absolute(), get_space(given.space), given.sizes, training),
        *(given.candidates, given.width, given.isomers, given.alone),
        tuple(given.proxies.split(",")),
    )
    for part, seeds in ((claim, given.seeds), (isomers, given.seeds), (alone, given.alone_seeds)):
        if given.part in (part.__name__, "all"):
            done(part, experiment, range(seeds) if given.seed is None else [given.seed])


def done(
    part: Callable[[Experiment, int], Any], experiment: Experiment, seeds: Sequence[int]
) -> None:
    """Write a file for each seed, unless it is there."""
    for seed in seeds:
        file = experiment.out / f"{part.__name__}-{seed}.json"
        if not file.exists():
            write_json(file, part(experiment, seed))


if __name__ == "__main__":
    main()
