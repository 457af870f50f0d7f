"""The verdicts of the experiments on supernets.

    python runs/scripts/oneshot_verdicts.py SUPERNET S3

SUPERNET and S3 are the folders of prenas_claims.py and of s3_claims.py, of which either may lack
seeds, or be missing. Writes results.json, results.md and plots to runs/supernet and
runs/s3. An interval is that of Student's t over the seeds, 95 %.
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure
from scipy.stats import t

from autoprox.files.atomic_writes import write_json
from autoprox.files.human_readable_sizes import format_with_unit

RUNS = Path(__file__).resolve().parents[1]
TRAININGS = ("preferred", "uniform", "sandwich", "alone")
Row = Sequence[str]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Their mean, and between what it lies; everywhere for a single one."""
    mean = fmean(values)
    if len(values) < 2:
        return mean, -float("inf"), float("inf")
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def shown(values: Sequence[float], digits: int = 2) -> str:
    mean, low, high = interval(values)
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def verdict(gains: Sequence[float]) -> str:
    """Of a claim that says these are above 0."""
    _, low, high = interval(gains)
    if low > 0:
        return "holds"
    return "doesn't hold here" if high < 0 else "not significant"


def table(headings: Row, rows: Sequence[Row]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def read(folder: Path, pattern: str) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]


def claim(seeds: Sequence[Sequence[Mapping[str, Any]]], figure: Path) -> list[str]:
    """Accuracies by size and training, and by how much preferred training gains."""
    rows = [row for own in seeds for row in own]
    sizes = sorted({row["size"] for row in rows})

    def of(training: str, size: int, name: str = "accuracy") -> list[float]:
        return [r[name] for r in rows if (r["training"], r["size"]) == (training, size)]

    body = [[f"{size:,}", *(shown(of(name, size)) for name in TRAININGS)] for size in sizes]
    lines = [
        f"Accuracy (%) below each size, {len(seeds)} seeds. *Preferred*: the preferred subnet of "
        "the size, from a supernet trained on all preferred subnets. *Uniform* and *sandwich*: the "
        "best of several random subnets, from a supernet trained with that sampler. *Alone*: the "
        "preferred subnet, trained separately:",
        "",
    ]
    lines += table(["parameters", *TRAININGS], body)
    axes = (drawn := Figure(figsize=(5, 3.5), layout="constrained")).subplots()
    for name in TRAININGS:
        means = [interval(of(name, size)) for size in sizes]
        spread = [stdev(of(name, size)) if len(seeds) > 1 else 0.0 for size in sizes]
        axes.errorbar(sizes, [m for m, _, _ in means], spread, capsize=3, label=name)
    axes.set(xlabel="parameters, at most", ylabel="accuracy, %")
    axes.set_xticks(sizes, [format_with_unit(size) for size in sizes])
    axes.legend(loc="lower right")
    drawn.savefig(figure, dpi=110)
    claims = []
    for other in TRAININGS[1:]:
        gains = [_gain(own, "preferred", other, "accuracy") for own in seeds]
        name = "separate" if other == "alone" else other
        text = f"preferred training is better than {name} training"
        claims.append([text, shown(gains), verdict(gains)])
    for other in TRAININGS[1:3]:
        gains = [_gain(own, "preferred", other, "preferred_one") for own in seeds]
        claims.append(
            [
                f"on the preferred subnets, preferred training is better than {other} training",
                shown(gains),
                verdict(gains),
            ]
        )
    return lines + table(
        ["claim, mean over the sizes", "gain in percentage points", "verdict"], claims
    )


def _gain(rows: Sequence[Mapping[str, Any]], one: str, other: str, name: str) -> float:
    """By how much, of one seed, the mean over the sizes is greater."""
    means = (fmean(r[name] for r in rows if r["training"] == own) for own in (one, other))
    return next(means) - next(means)


def isomers(seeds: Sequence[Mapping[str, Any]], trained: Sequence[Mapping[str, Any]]) -> list[str]:
    """The mean best rank of every proxy, pooled by seeds; and that by training some alone."""
    first = seeds[0]
    sizes = {name: own["isomers"] for name, own in first["groups"].items()}
    lines = [
        f"Rank, within its group, of the isomer that each proxy scores highest (0: the best, 1: "
        f"the worst; 0.5 on average for a random pick): {sum(sizes.values())} isomers in groups of "
        f"{', '.join(map(str, sizes.values()))}, {len(seeds)} seeds. *Tau* is the proxy's mean "
        "Kendall tau within the groups, and *slices* are SNIP scores of slices of one supernet:",
        "",
    ]

    def pooled(seed: Mapping[str, Any], name: str) -> float:
        ranks = seed["mean_best_rank"][name]
        others = {group: count - 1 for group, count in sizes.items()}
        return float(sum(ranks[g] * n for g, n in others.items()) / sum(others.values()))

    means = {name: fmean(pooled(s, name) for s in seeds) for name in first["mean_best_rank"]}
    rows = []
    for name in sorted(means, key=means.__getitem__):
        ranks = [fmean(s["mean_best_rank"][name][g] for s in seeds) for g in sizes]
        taus = fmean(s["tau"][name][g] for s in seeds for g in sizes)
        whole = shown([pooled(s, name) for s in seeds])
        by_training = [own["mean_best_rank"][name] for own in trained]
        others = f"{taus:.2f}", shown(by_training) if by_training else "-"
        rows.append([f"`{name}`", *(f"{r:.2f}" for r in ranks), whole, *others])
    headings = [*(f"different {g}" for g in sizes), "all", "tau", "24 of them, trained separately"]
    lines += table(["proxy", *headings], rows)
    claims = []
    for name in means:
        if name.startswith("slices: normalised"):
            gains = [pooled(s, "slices: SNIP") - pooled(s, name) for s in seeds]
            text = f"SNIP {name.removeprefix('slices: ')} is better than SNIP"
            claims.append([text, shown(gains), verdict(gains)])
    spans = {g: fmean(s["groups"][g]["deviation"] for s in seeds) for g in sizes}
    deviations = ", ".join(f"{value:.2f} ({name})" for name, value in spans.items())
    lines += [
        f"Standard deviation of the inherited accuracies, in percentage points: {deviations}.",
        "",
    ]
    return lines + table(["claim", "gain in rank", "verdict"], claims)


def alone(seeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """How inherited accuracies rank what was trained alone."""
    groups = list(seeds[0]["groups"])
    rows = [
        [
            str(s["seed"]),
            *(f"{s['groups'][g]['tau']:.2f}" for g in groups),
            f"{s['tau']:.2f}",
            f"{fmean(x for g in groups for x in s['groups'][g]['inherited']):.2f}",
            f"{fmean(x for g in groups for x in s['groups'][g]['alone']):.2f}",
        ]
        for s in seeds
    ]
    count = sum(len(seeds[0]["groups"][g]["alone"]) for g in groups)
    lines = [
        "Kendall tau between inherited accuracy and accuracy after separate training, "
        f"{count} isomers:",
        "",
    ]
    return lines + table(["seed", *groups, "all", "inherited, mean", "alone, mean"], rows)


def s3(seeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """The errors of the spaces, their best networks, and what inherited weights are worth."""
    count = range(len(seeds[0]["rounds"]))
    rows = [
        [
            str(number),
            *(shown([s["rounds"][number][n] for s in seeds]) for n in seeds[0]["rounds"][0]),
            *(shown([s[n][number] for s in seeds]) for n in ("best_inherited", "best_alone")),
        ]
        for number in count
    ]
    headings = ["space", "E-T error", "expected", "top tier", "best, inherited", "best, alone"]
    lines = [
        "Errors of random networks of each space, and accuracies of its best network, in percent, "
        f"{len(seeds)} seeds:",
        "",
        *table(headings, rows),
    ]
    claims = []
    for number in count[1:]:
        gains = [s["rounds"][0]["error"] - s["rounds"][number]["error"] for s in seeds]
        text = f"space {number} has a lower E-T error than space 0"
        claims.append([text, shown(gains), verdict(gains)])
        gains = [s["best_alone"][number] - s["best_alone"][0] for s in seeds]
        best = f"the best network of space {number}, trained separately"
        text = f"{best}, is better than that of space 0"
        claims.append([text, shown(gains), verdict(gains)])
    gains = [fmean(s["inherited"]) - fmean(s["alone"]) for s in seeds]
    text = "inherited weights are more accurate than separately trained ones"
    claims.append([text, shown(gains), verdict(gains)])
    taus = [s["tau"] for s in seeds]
    claims.append(
        [
            "inherited and separately trained weights rank random networks alike (tau)",
            shown(taus),
            verdict(taus),
        ]
    )
    return lines + table(["claim", "gain", "verdict"], claims)


def main(supernet: Path, spaces: Path) -> None:
    """Write what there is."""
    lines: list[str] = []
    found = {part: read(supernet, f"{part}-[0-9].json") for part in ("claim", "isomers", "alone")}
    if found["claim"]:
        lines += claim(found["claim"], RUNS / "supernet" / "accuracies.png")
    if found["isomers"]:
        lines += isomers(found["isomers"], found["alone"])
    if found["alone"]:
        lines += alone(found["alone"])
    if lines:
        (RUNS / "supernet" / "results.md").write_text("\n".join(lines).rstrip() + "\n")
        write_json(RUNS / "supernet" / "results.json", found)
    if seeds := read(spaces, "seed[0-9].json"):
        (RUNS / "s3" / "results.md").write_text("\n".join(s3(seeds)).rstrip() + "\n")
        write_json(RUNS / "s3" / "results.json", seeds)
    for plot in sorted(spaces.glob("seed0/*/*.png")):
        shutil.copyfile(plot, RUNS / "s3" / plot.name)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
