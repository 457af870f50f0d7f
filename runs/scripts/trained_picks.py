"""What each method picks from 5,000 candidates of a space, trained.

    python runs/scripts/trained_picks.py pick [--spaces gpt2-nano]
    python runs/scripts/trained_picks.py train DATA [--workers 2]
    python runs/scripts/trained_picks.py page

`pick` evolves on 60 networks of each nano table, scores the candidates by each method, takes the
best within each of three size limits, and writes runs/trained-picks/SPACE.json. `train` trains the
picks with the recipe of nano-bench, a line in runs/trained-picks/parts/SPACE.jsonl for each
training, and goes on where it was stopped; DATA is what nano_bench_data.py wrote. `page` writes
docs/results/picks.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from nano_bench_training import PLANS, Job, Plan, finished, recipes, work
from ranked_tables import WORK, show_progress
from scipy.stats import rankdata, t

from autoprox import evolve, search
from autoprox.benchmarks import load_benchmark
from autoprox.evaluation.proxy_measurement import SIZE_PROXIES, all_proxy_names
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.files.json_documents import read_object
from autoprox.nas.candidate_measurement import load_search_proxy
from autoprox.report.terminal.layout import markdown_line
from autoprox.scoring.baselines import REGRESSIONS, regression_features
from autoprox.searchspaces import Architecture, get_space
from autoprox.zoo.functions import RANK_COMBINATIONS
from autoprox.zoo.prior_file import read_prior_file

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "trained-picks"
PAGE = ROOT / "docs" / "results" / "picks.md"
LABELS, SEEDS = 60, (0, 1, 2)
CANDIDATES = (1667, 1667, 1666)  # in the bands of sizes below each limit
CONFIDENCE = 0.95
PUBLISHED = {*all_proxy_names()} - {*SIZE_PROXIES, *RANK_COMBINATIONS, *read_prior_file().groups}
EVOLVED = ("committee", "predictor")
METHODS = {
    "committee": "evolved (committee, with prior)",
    "predictor": "evolved (predictor, with prior)",
    "published": "best published proxy",
    "params": "largest",
    "ridge": "ridge",
    "gaussian-process": "Gaussian process",
    "random": "random",
}


def size_limits(plan: Plan) -> list[int]:
    """Return the least size of the table, and the limits up to its greatest, in equal ratios."""
    step = (plan.high / plan.low) ** (1 / len(CANDIDATES))
    return [round(plan.low * step**index) for index in range(len(CANDIDATES) + 1)]


def pick(plan: Plan) -> None:
    """Choose an architecture by each method within each limit."""
    space, table = get_space(plan.space), load_benchmark("nano-bench", space=plan.space)
    folder = WORK / f"picks-{plan.space}"
    shutil.rmtree(folder, ignore_errors=True)
    common: dict[str, Any] = {"runs": folder, "workers": 1, "progress": show_progress}
    share = LABELS / len(table.architectures)
    found = evolve(
        benchmark="nano-bench", space=plan.space, train=share, zoo=("all",), prior=True, **common
    )
    [quality] = found.summary.folds[0].spaces.values()
    labelled = quality.networks["train"].network
    if len(labelled) != LABELS:
        raise SystemExit(f"{plan.space}: {len(labelled)} training networks instead of {LABELS}")
    known = {name: quality.means[name].train.kendall for name in quality.means if name in PUBLISHED}
    taus = {name: tau for name, tau in known.items() if tau is not None}
    published = max(taus, key=lambda name: taus[name])
    proxies = {own: f"{found.path}:{own}" for own in EVOLVED} | {"published": published}
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in proxies}
    edges = size_limits(plan)
    for low, high, most in zip(edges, edges[1:], CANDIDATES, strict=False):
        count, measured = most, dict[tuple[str, ...], list[dict[str, Any]]]()
        for name, proxy in proxies.items():
            terms = tuple(map(str, load_search_proxy(proxy).terms))
            if terms not in measured:
                limits = f"{low + 1}:{high}"
                run = search(
                    space=plan.space, proxy=proxy, params=limits, samples=count, **common
                ).path
                texts = (run / "candidates.jsonl").read_text().splitlines()
                measured[terms] = [json.loads(text) for text in texts]
                count = len(texts)  # a band may have fewer architectures
            lines[name] += measured[terms]
    choices = [line["arch"] for line in lines["committee"]]
    if any(choices != [line["arch"] for line in own] for own in lines.values()):
        raise SystemExit(f"{plan.space}: the searches have other candidates")
    candidates = [space.architecture(own) for own in choices]
    sizes = [line["params"] for line in lines["committee"]]
    scores = {name: _scored(proxies[name], own, candidates) for name, own in lines.items()}
    scores["params"] = [float(size) for size in sizes]
    for kind in REGRESSIONS:
        scores[kind] = _predicted(kind, plan.space, labelled, candidates)
    picks = {}
    for limit in edges[1:]:
        within = [index for index, size in enumerate(sizes) if size <= limit]
        chosen = {name: max(within, key=own.__getitem__) for name, own in scores.items()}
        chosen["random"] = random.Random(limit).choice(within)
        picks[str(limit)] = {
            name: {"arch": choices[index], "params": sizes[index]} for name, index in chosen.items()
        }
    RESULTS.mkdir(exist_ok=True)
    write_json(
        RESULTS / f"{plan.space}.json",
        {
            "space": plan.space,
            "labels": LABELS,
            "candidates": len(candidates),
            "published": published,
            "published_taus": taus,
            "expression": found.summary.expression,
            "picks": picks,
        },
    )
    shutil.rmtree(folder)


def _scored(
    proxy: str, lines: Sequence[Mapping[str, Any]], candidates: Sequence[Architecture]
) -> list[float]:
    """Return the scores of all candidates together; those that failed come last."""
    valid = [index for index, line in enumerate(lines) if line["failure"] is None]
    terms = np.array([lines[index]["terms"] for index in valid], dtype=np.float64)
    scores = np.full(len(lines), -np.inf)
    known = [candidates[index] for index in valid]
    scores[valid] = load_search_proxy(proxy).scores(terms, known)
    return [float(own) for own in scores]


def _predicted(
    kind: str, name: str, labelled: Sequence[int], wanted: Sequence[Architecture]
) -> list[float]:
    """Return the mean over the datasets of the predicted ranks."""
    space, table = get_space(name), load_benchmark("nano-bench", space=name)
    known = regression_features(kind, space, [table.architectures[i] for i in labelled])
    features = regression_features(kind, space, wanted)
    predicted = [
        rankdata(REGRESSIONS[kind](known, truth[list(labelled)], features))
        for truth in table.scores.values()
    ]
    return [float(own) for own in np.mean(predicted, axis=0)]


def jobs(hashes: Mapping[str, str]) -> Iterator[Job]:
    """Yield the trainings of all picks, one seed after the other."""
    known = {plan: _picked(plan) for plan in PLANS if (RESULTS / f"{plan.space}.json").exists()}
    for seed in SEEDS:
        for plan, picks in known.items():
            for arch in dict.fromkeys(own for by in picks.values() for own in by.values()):
                for dataset in plan.datasets:
                    yield Job(plan, dataset, seed, arch, hashes[plan.space])


def _picked(plan: Plan) -> dict[str, dict[str, Architecture]]:
    space, content = get_space(plan.space), read_object(RESULTS / f"{plan.space}.json")
    return {
        limit: {name: space.architecture(own["arch"]) for name, own in by.items()}
        for limit, by in content["picks"].items()
    }


def train(data: Path, workers: int) -> None:
    """Do the trainings that are missing."""
    folder = RESULTS / "parts"
    folder.mkdir(exist_ok=True)
    every = list(jobs(recipes(data)))
    done = finished(folder)
    todo = [job for job in every if job.key not in done]
    print(f"{len(todo)} of {len(every)} trainings to do", flush=True)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=work, args=(todo[index::workers], data, folder))
        for index in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a worker was ended; start again to go on")


def page() -> str:
    """Return the page: the true score of what each method picks."""
    files = [RESULTS / f"{plan.space}.json" for plan in PLANS]
    known_files = [read_object(path) for path in files if path.exists()]
    counts = ", ".join(f"`{own['space']}`: {own['candidates']:,}" for own in known_files)
    lines = [
        "<!-- Written by runs/scripts/trained_picks.py page: change it there. -->",
        "",
        "# Picks, trained",
        "",
        f"Of {sum(CANDIDATES):,} candidates, a third from each of three bands of sizes, or all "
        f"that there are ({counts}), each method picks the best within each limit. The picks are "
        "trained with the recipe of nano-bench on both datasets of their table, three seeds each. "
        "A score is how far the negative cross-entropy on what was held out lies above the mean of "
        "the table's 128 networks, in their standard deviations, mean of both datasets, with a "
        "95 % interval over the seeds.",
        "",
        "The evolution, the regressions and the choice of the published proxy use the same "
        f"{LABELS} trained networks; the evolution also has the prior of the other tables. Its "
        "committee is a formula, and its predictor a Gaussian process on the choices whose prior "
        "mean is the score of that prior. The predictor's picks were added when those of the "
        "other methods had been trained and seen.",
        "",
        markdown_line(["space", "most parameters", *METHODS.values()]),
        markdown_line(["---"] * (len(METHODS) + 2)),
    ]
    means: dict[str, list[float]] = {name: [] for name in METHODS}
    verdicts: dict[tuple[str, str], list[str]] = {}
    for plan in PLANS:
        path = RESULTS / f"{plan.space}.json"
        if not path.exists():
            continue
        known = _scores(plan)
        named = read_object(path)["published"]
        for limit, by in _picked(plan).items():
            cells = []
            for name in METHODS:
                own = known[by[name].digest]
                note = f"<br>`{named}`" if name == "published" else ""
                cells.append(f"{own.mean():+.2f} ± {_half_width(own):.2f}{note}")
                for evolved in EVOLVED:
                    if name not in EVOLVED:
                        verdict = _verdict(known[by[evolved].digest], own)
                        verdicts.setdefault((evolved, name), []).append(verdict)
                means[name].append(float(own.mean()))
            lines.append(markdown_line([f"`{plan.space}`", f"{int(limit):,}", *cells]))
    lines.append(markdown_line(["mean", "", *(f"{fmean(own):+.2f}" for own in means.values())]))
    start = lines.index("# Picks, trained") + 1
    lines[start:start] = [own for text in _sentences(verdicts, means) for own in ("", text)]
    lines += [
        "",
        "The evolved picks compared with those of each method:",
        "",
    ]
    headings = ("better", "significantly", "worse", "significantly", "same pick")
    lines += [
        markdown_line(["evolved", "method", *headings]),
        markdown_line(["---"] * (2 + len(headings))),
    ]
    for (evolved, name), found in verdicts.items():
        taken = [
            sum(word in verdict for verdict in found)
            for word in ("better", "better *", "worse", "worse *", "same")
        ]
        lines.append(markdown_line([evolved, METHODS[name], *map(str, taken)]))
    lines += [
        "",
        "*Significantly* is by a paired t test over the two datasets and three seeds, 5 %, without "
        "correction for the number of comparisons.",
    ]
    return "\n".join(lines) + "\n"


def _sentences(
    verdicts: Mapping[tuple[str, str], Sequence[str]], means: Mapping[str, Sequence[float]]
) -> Iterator[str]:
    for evolved in EVOLVED:
        parts = []
        for name, noun in (
            ("params", "the largest network"),
            ("published", "the pick of the best published proxy"),
        ):
            own = verdicts[evolved, name]
            better, worse = (
                sum(word in verdict for verdict in own) for word in ("better", "worse *")
            )
            parts.append(f"{noun} in {better} of {len(own)} cases (significantly worse in {worse})")
        yield f"**The {evolved}'s pick is better than {' and than '.join(parts)}.**"
    ranked = sorted(METHODS, key=lambda name: -fmean(means[name]))
    shown = ", ".join(f"{METHODS[name]} {fmean(means[name]):+.2f}" for name in ranked)
    yield f"Mean scores of the picks: {shown}."


def _scores(plan: Plan) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the standardised scores [datasets, seeds] of each trained architecture."""
    space, table = get_space(plan.space), load_benchmark("nano-bench", space=plan.space)
    found: dict[str, Any] = {}
    for text in (RESULTS / "parts" / f"{plan.space}.jsonl").read_text().splitlines():
        line = json.loads(text)
        digest = space.architecture(line["arch"]).digest
        truth = table.scores[line["dataset"]]
        score = (-line["cross_entropy"] - truth.mean()) / truth.std()
        own = found.setdefault(digest, np.full((len(plan.datasets), len(SEEDS)), np.nan))
        own[plan.datasets.index(line["dataset"]), SEEDS.index(line["seed"])] = score
    return found


def _half_width(scores: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return half the width of an interval for the mean, from the spread over the seeds."""
    datasets, seeds = scores.shape
    error = np.sqrt((scores.var(axis=1, ddof=1) / seeds).sum()) / datasets
    return float(error * t.ppf((1 + CONFIDENCE) / 2, datasets * (seeds - 1)))


def _verdict(
    one: np.ndarray[Any, np.dtype[np.float64]], other: np.ndarray[Any, np.dtype[np.float64]]
) -> str:
    """Say whether one pick is better than another, with a star if significantly."""
    difference = (one - other).ravel()
    if not difference.any():
        return "same"
    error = difference.std(ddof=1) / len(difference) ** 0.5
    bound = error * t.ppf((1 + CONFIDENCE) / 2, len(difference) - 1)
    mean = fmean(difference)
    return ("better" if mean > 0 else "worse") + (" *" if abs(mean) > bound else "")


def main() -> None:
    """Run one of the modes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    picking = modes.add_parser("pick")
    picking.add_argument("--spaces", default="")
    training = modes.add_parser("train")
    training.add_argument("data", type=Path)
    training.add_argument("--workers", type=int, default=2)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        write_text(PAGE, page())
    elif given.mode == "train":
        train(given.data, given.workers)
    else:
        wanted = [name for name in given.spaces.split(",") if name]
        for plan in PLANS:
            there = (RESULTS / f"{plan.space}.json").exists()
            if plan.space in wanted if wanted else not there:
                pick(plan)


if __name__ == "__main__":
    main()
