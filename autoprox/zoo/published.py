"""Correlations that papers report, to stand beside those measured here.

Auto-Prox is Wei et al., AAAI 2024, its tables 2 (ViT-Bench-101 with distillation), 5 (AutoFormer's
ImageNet supernet) and 6 (PiT without distillation, Spearman only); NAS-Bench-BERT is Serianni and
Kalita, ACL 2023.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Figures(NamedTuple):
    """Correlations between -1 and 1; None where a paper doesn't give one."""

    kendall: float | None = None
    spearman: float | None = None
    pearson: float | None = None


TRAINED = ("cifar100", "flowers", "chaoyang")

# proxy -> Kendall, Spearman and Pearson in percent, for each of TRAINED
_AUTOFORMER = {
    "grasp": ((0.84, 1.35, 0.82), (0.82, -7.33, -4.14), (-4.42, -6.53, 6.26)),
    "synflow": ((37.66, 52.89, 52.01), (62.59, 82.13, 62.26), (27.87, 39.30, 41.08)),
    "te-nas": ((-30.03, -43.27, -42.66), (-53.55, -73.79, -54.17), (-27.81, -39.69, -40.79)),
    "naswot": ((54.65, 63.11, 60.01), (68.16, 82.06, 53.91), (27.29, 38.96, 40.57)),
    "dss": ((35.89, 50.84, 50.51), (63.90, 83.28, 62.80), (27.14, 38.52, 40.57)),
    "autoprox-a": ((55.67, 63.87, 60.56), (69.19, 83.65, 79.52), (33.76, 41.76, 42.63)),
}
_PIT = {
    "grasp": ((-42.02, -58.71, -31.53), (-50.66, -69.64, -40.90), (-16.00, -22.94, -19.07)),
    "synflow": ((69.79, 87.05, 70.80), (62.22, 79.98, 71.66), (30.96, 42.66, 39.24)),
    "te-nas": ((-2.13, -3.21, -1.68), (-2.86, -4.23, -3.33), (-3.34, -5.04, -3.55)),
    "naswot": ((-2.61, -4.13, -0.52), (2.67, 3.69, 0.71), (4.73, 6.87, 4.43)),
    "dss": ((63.83, 82.20, 58.37), (64.48, 82.91, 67.23), (37.99, 52.92, 42.68)),
    "autoprox-p": ((82.07, 95.12, 73.25), (79.25, 92.94, 79.53), (41.67, 55.09, 49.17)),
}
_PIT_BASE = {  # Spearman alone
    "synflow": (86.88, 86.57, 64.51),
    "naswot": (-0.45, 1.98, -2.26),
    "dss": (84.79, 86.51, 69.09),
    "autoprox-p": (91.01, 90.70, 76.95),
}
_SUPERNET = {
    "snip": (14.61, 30.62, 49.45),
    "synflow": (14.81, 27.69, 44.19),
    "naswot": (13.34, 19.79, 38.39),
    "dss": (14.52, 29.93, 48.70),
    "autoprox-a": (25.44, 37.10, 51.84),
}
_GLUE = {"params": 45.4, "head_confidence": 47.8}


def _figures(*percent: float | None) -> Figures:
    return Figures(*(None if value is None else round(value / 100, 4) for value in percent))


PUBLISHED: Mapping[tuple[str, str, str], Mapping[str, Figures]] = {
    **{
        ("vit-bench-101/" + space, "kd", dataset): {
            proxy: _figures(*rows[i]) for proxy, rows in table.items()
        }
        for space, table in (("autoformer-ti", _AUTOFORMER), ("pit", _PIT))
        for i, dataset in enumerate(TRAINED)
    },
    **{
        ("vit-bench-101/pit", "base", dataset): {
            proxy: _figures(None, values[i]) for proxy, values in _PIT_BASE.items()
        }
        for i, dataset in enumerate(TRAINED)
    },
    ("vit-bench-101/autoformer-ti", "supernet", "imagenet"): {
        proxy: _figures(*values) for proxy, values in _SUPERNET.items()
    },
    ("nas-bench-bert/flexibert", "score", "glue"): {
        proxy: _figures(value) for proxy, value in _GLUE.items()
    },
}


def published(benchmark: str, space: str, label: str, dataset: str, proxy: str) -> Figures:
    """What a paper reports of a proxy; empty where none does."""
    table = PUBLISHED.get((f"{benchmark}/{space}", label, dataset), {})
    return table.get(proxy, Figures())
