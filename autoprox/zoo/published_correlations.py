"""Correlations that papers report, to compare with those measured here.

Auto-Prox is Wei et al., AAAI 2024, its tables 2 (ViT-Bench-101 with distillation), 5 (AutoFormer's
ImageNet supernet) and 6 (PiT without distillation, Spearman only); NAS-Bench-BERT is Serianni and
Kalita, ACL 2023. T-Razor (Zhou et al., TPAMI 2024, tables X and XII) and ETAS (Yang and Liu,
Findings of ACL 2024, tables 1 and 3) report networks that aren't published: slices of AutoFormer's
trained supernets, and GPT-2s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autoprox.files.json_documents import JSONDocument


class PublishedCorrelations(NamedTuple):
    """Correlations between -1 and 1; None if a paper doesn't give one."""

    kendall: float | None = None
    spearman: float | None = None
    pearson: float | None = None


_DATASETS = ("cifar100", "flowers", "chaoyang")

# proxy -> Kendall, Spearman and Pearson in percent, for each of _DATASETS
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
_RANGES = ("5 to 7 M", "15 to 19 M", "23 to 25 M")  # parameters of the slices
_SLICES = {  # Kendall for each of _RANGES
    "snip": (48.1, 2.8, -28.2),
    "grasp": (5.3, -2.2, -2.9),
    "te-nas": (-3.9, -24.8, -7.5),
    "naswot": (37.8, 17.1, 20.8),
    "ntk-trace": (-18.2, -21.1, -10.6),
    "gradsign": (23.2, 17.6, 12.8),
    "mgm": (40.2, 42.9, 24.5),
    "grad_norm": (12.8, 3.6, 33.8),
    "dss": (69.7, 61.5, 30.6),
    "dss++": (71.6, 66.4, 43.1),
}
_SEEDS = {  # Kendall, the mean of four seeds, 5 to 7 M
    "snip": 50.1,
    "grasp": 11.7,
    "te-nas": -1.7,
    "naswot": 38.1,
    "dss": 69.7,
    "dss++": 71.6,
}
_SIZES = ("ti", "s", "b")
_ETAS_VIT = {  # Kendall and Spearman for each of _SIZES
    "params": ((57, 76), (64, 81), (60, 81)),
    "flops": ((49, 68), (58, 78), (52, 74)),
    "snip": ((56, 74), (59, 76), (58, 79)),
    "grad_norm": ((33, 51), (54, 72), (58, 77)),
    "naswot": ((54, 71), (57, 75), (50, 71)),
    "zico": ((48, 65), (43, 62), (43, 62)),
    "meco": ((46, 68), (47, 66), (47, 66)),
    "dss": ((66, 80), (65, 82), (64, 84)),
    "ld": ((52, 69), (60, 81), (59, 80)),
    "sept": ((71, 89), (72, 89), (69, 87)),
    "ntkt": ((70, 87), (70, 86), (72, 90)),
    "ntsr": ((74, 90), (74, 91), (75, 92)),
}
_TEXTS = ("wikitext103", "lm1b")
_ETAS_GPT2 = {  # Kendall and Spearman for each of _TEXTS
    "params": ((79, 94), (77, 92)),
    "flops": ((65, 80), (51, 72)),
    "snip": ((40, 57), (48, 66)),
    "grad_norm": ((15, 23), (6, 14)),
    "naswot": ((24, 37), (32, 48)),
    "zico": ((18, 36), (15, 26)),
    "meco": ((49, 65), (42, 61)),
    "dss": ((26, 35), (24, 32)),
    "ld": ((48, 64), (37, 50)),
    "sept": ((78, 94), (79, 95)),
    "ntkt": ((80, 96), (78, 92)),
    "ntsr": ((81, 98), (80, 96)),
}


class MeasuredAndPublished(JSONDocument):
    """A correlation that we measured, and that of a paper."""

    ours: float | None
    published: float


class PublishedRow(JSONDocument):
    """A proxy's correlations next to those of a paper."""

    proxy: str
    dataset: str
    source: str
    same_networks: bool
    kendall: MeasuredAndPublished | None = None
    spearman: MeasuredAndPublished | None = None
    pearson: MeasuredAndPublished | None = None


class PublishedComparison(JSONDocument):
    """The correlations that papers report, and the proxies that none reports on."""

    rows: tuple[PublishedRow, ...]
    without: tuple[str, ...]


@dataclass(frozen=True)
class PublishedTable:
    """The correlations of a paper: on a benchmark and label, or on networks of its own."""

    source: str
    space: str
    dataset: str
    correlations: Mapping[str, PublishedCorrelations]  # of each proxy
    benchmark: str | None = None
    label: str | None = None


def _correlations(
    table: Mapping[str, Any], column: int | None = None, alone: str = "kendall"
) -> dict[str, PublishedCorrelations]:
    """A table, or one column of it; a number that isn't in a tuple is the correlation `alone`."""
    found = {}
    for proxy, row in table.items():
        cell = row if column is None else row[column]
        names = PublishedCorrelations._fields if isinstance(cell, tuple) else (alone,)
        percent = zip(names, cell if isinstance(cell, tuple) else (cell,), strict=False)
        found[proxy] = PublishedCorrelations(**{n: round(p / 100, 4) for n, p in percent})
    return found


def _tables() -> Iterator[PublishedTable]:
    vit, ti = "vit-bench-101", "autoformer-ti"
    for i, dataset in enumerate(_DATASETS):
        for space, table in ((ti, _AUTOFORMER), ("pit", _PIT)):
            kd = _correlations(table, i)
            yield PublishedTable("Auto-Prox, table 2", space, dataset, kd, vit, "kd")
        base = _correlations(_PIT_BASE, i, "spearman")
        yield PublishedTable("Auto-Prox, table 6", "pit", dataset, base, vit, "base")
    supernet, glue = _correlations(_SUPERNET), _correlations(_GLUE)
    yield PublishedTable("Auto-Prox, table 5", ti, "imagenet", supernet, vit, "supernet")
    yield PublishedTable("NAS-Bench-BERT", "flexibert", "glue", glue, "nas-bench-bert", "score")
    for size, space in enumerate(f"autoformer-supernet-{name}" for name in _SIZES):
        for i, params in enumerate(_RANGES):
            if size == min(i, 1):  # Tiny has 5 to 11 M parameters, Small 13 to 35 M
                source = f"T-Razor, table X, {params}"
                yield PublishedTable(source, space, "imagenet", _correlations(_SLICES, i))
        if size == 0:
            source = "T-Razor, table XII, 4 seeds"
            yield PublishedTable(source, space, "imagenet", _correlations(_SEEDS))
        yield PublishedTable("ETAS, table 1", space, "imagenet", _correlations(_ETAS_VIT, size))
    for i, dataset in enumerate(_TEXTS):
        yield PublishedTable("ETAS, table 3", "gpt2", dataset, _correlations(_ETAS_GPT2, i))


PUBLISHED_TABLES = tuple(_tables())


def find_published_tables(
    benchmark: str, space: str, label: str, dataset: str
) -> list[PublishedTable]:
    """The published tables on these scores; if there are none, on other networks of the space."""
    near = [t for t in PUBLISHED_TABLES if (t.space, t.dataset) == (space, dataset)]
    same = [t for t in near if (t.benchmark, t.label) == (benchmark, label)]
    return same or [t for t in near if t.benchmark is None]


def published_correlations(
    benchmark: str, space: str, label: str, dataset: str, proxy: str
) -> PublishedCorrelations:
    """The published correlations of a proxy on exactly these networks; empty if there are none."""
    for table in find_published_tables(benchmark, space, label, dataset):
        if table.benchmark and proxy in table.correlations:
            return table.correlations[proxy]
    return PublishedCorrelations()


Row = tuple[str, str, float | None, float | None, float | None]


def compare_with_published(
    rows: Sequence[Row], benchmark: str, space: str, label: str
) -> PublishedComparison:
    """Put a ranking's rows (proxy, dataset, Kendall, Spearman, Pearson) next to those of papers."""
    found = [
        PublishedRow(
            proxy=proxy,
            dataset=dataset,
            source=table.source,
            same_networks=table.benchmark is not None,
            **{
                name: MeasuredAndPublished(ours=own, published=value)
                for (name, value), own in zip(
                    table.correlations[proxy]._asdict().items(), ours, strict=True
                )
                if value is not None
            },
        )
        for proxy, dataset, *ours in rows
        for table in find_published_tables(benchmark, space, label, dataset)
        if proxy in table.correlations
    ]
    known = {row.proxy for row in found}
    proxies = dict.fromkeys(proxy for proxy, *_ in rows)
    without = tuple(proxy for proxy in proxies if proxy not in known)
    return PublishedComparison(rows=tuple(found), without=without)
