"""A proxy's record."""

from typing import Any

SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"


def record(**changes: Any) -> dict[str, Any]:
    return {
        "expression": SNIP,
        "formula": "Σ Σ |W G|",
        "found": {
            "run": "20260102T030405Z-pit",
            "space": "pit",
            "benchmark": "vit-bench-101",
            "label": "kd",
            "datasets": ["cifar100", "flowers"],
            "seed": 7,
        },
        "taus": {"train": {"cifar100": 0.5, "flowers": -1}, "test": {"cifar100": None}},
    } | changes
