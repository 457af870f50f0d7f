"""A proxy's record."""

from typing import Any

from autoprox.runs.proxy_file import Found, ProxyRecord

SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"


def record(**changes: Any) -> dict[str, Any]:
    """Return a record as JSON values."""
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
            "weights": "fresh",
            "evolved_on": [],
        },
        "taus": {"train": {"cifar100": 0.5, "flowers": -1}, "test": {"cifar100": None}},
    } | changes


def proxy_record(**changes: Any) -> ProxyRecord:
    """Return a record as runs write it."""
    values = record(**changes)
    return ProxyRecord(**{**values, "found": Found.model_validate(values["found"])})
