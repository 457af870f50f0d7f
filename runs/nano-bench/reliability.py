"""What the tables' labels are worth so far, over pairs of architectures of equal size.

    python reliability.py

Kendall's tau between the means of two halves of the seeds, over the pairs whose numbers of
parameters differ by less than 10 %, the mean over all ways to halve them; by Spearman and Brown
that of the mean of all seeds; and tau of parameters, FLOPs and depth with it over the same pairs.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoprox.searchspaces import get_space

NEAR = 0.1
Numbers = NDArray[np.float64]


def tau(one: Numbers, other: Numbers, near: NDArray[np.bool_]) -> float:
    """Kendall's tau-b over some of the pairs."""
    signs = [np.sign(values[:, None] - values)[near] for values in (one, other)]
    return float((signs[0] * signs[1]).sum() / np.sqrt(np.prod([abs(s).sum() for s in signs])))


def halves(values: Numbers, near: NDArray[np.bool_]) -> float:
    """The mean tau between the two halves of the seeds, the columns."""
    count = values.shape[1]
    found = []
    for half in combinations(range(count), count // 2):
        rest = [seed for seed in range(count) if seed not in half]
        found.append(tau(values[:, list(half)].mean(1), values[:, rest].mean(1), near))
    return float(np.mean(found))


def report(space: str, dataset: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a line of the table for each label."""
    seeds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        seeds[json.dumps(row["arch"], sort_keys=True)].append(row)
    most = max(map(len, seeds.values()))
    full = [own for own in seeds.values() if len(own) == most]
    first = [own[0] for own in full]
    known = get_space(space)
    depth = [len(known.blocks(known.architecture(row["arch"]))) for row in first]
    params, flops = (np.array([r[n] for r in first], dtype=float) for n in ("params", "flops"))
    gap = abs(params[:, None] - params) / np.minimum(params[:, None], params)
    near = np.triu(gap < NEAR, 1)
    if most < 2 or not near.any():
        print(f"| {space} | {dataset} | - | {len(full)} | {most} | too few yet |")
        return
    for label in ("cross_entropy", "accuracy"):
        sign = -1 if label == "cross_entropy" else 1
        values = sign * np.array([[r[label] for r in sorted(o, key=_seed)] for o in full])
        found = halves(values, near)
        noise = np.sqrt((values - values.mean(0)).var(1, ddof=1).mean())
        others = (tau(x, values.mean(1), near) for x in (params, flops, np.array(depth, float)))
        cells = [found, 2 * found / (1 + found), *others]
        numbers = " | ".join(f"{cell:.2f}" for cell in cells)
        spread = values.mean(1).std(ddof=1)
        cost = np.mean([row["seconds"] for row in rows])
        start = f"| {space} | {dataset} | {label} | {len(full)} | {most} | {near.sum()} "
        print(f"{start}| {spread:.4f} | {noise:.4f} | {numbers} | {cost:.1f} |")


def _seed(row: dict[str, Any]) -> int:
    return int(row["seed"])


def main() -> None:
    """Report on every table."""
    print(
        "| space | dataset | label | architectures | seeds | pairs | SD | SD between seeds | "
        "tau halves | of the mean | params | FLOPs | depth | s |"
    )
    print("|" + "---|" * 14)
    for path in sorted((Path(__file__).parent / "parts").glob("*.jsonl")):
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in path.read_text().splitlines():
            row = json.loads(line)
            rows[row["dataset"]].append(row)
        for dataset, own in rows.items():
            report(path.stem, dataset, own)


if __name__ == "__main__":
    main()
