"""What papers report next to what is measured here.

    python runs/scripts/reproductions.py measure [--tables A,B] [--variants fresh,shared]
    python runs/scripts/reproductions.py adopt RUN ...
    python runs/scripts/reproductions.py prenas
    python runs/scripts/reproductions.py page

`measure` ranks the proxies of the papers on each installed table, in several variants of what the
papers may have done, and writes runs/reproductions/TABLE-VARIANT.json; what is there isn't measured
again, and a stopped ranking is resumed. On tables of the leaderboard it ranks the whole zoo in the
two main variants, and writes the leaderboard's file as well, unless --papers is given. `adopt`
takes finished runs of `autoprox rank` over instead. `prenas` makes PreNAS's choices. `page` writes
docs/results/reproductions.md.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import leaderboard
import numpy as np
from ranked_tables import (
    Table,
    bounds,
    figure,
    finished_ranking,
    forget,
    installed_tables,
    show_progress,
)

from autoprox import load_run
from autoprox.commands.rank import RankRow, RankSummary
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.files.json_documents import read_object
from autoprox.loaded_runs import RankResult
from autoprox.oneshot.prenas.isomer_selection import IsomerSelector
from autoprox.oneshot.prenas.supernet_saliency import measure_saliency
from autoprox.parallel.threads import single_torch_thread
from autoprox.report.terminal.layout import markdown_line
from autoprox.scoring.bootstrap import bootstrap_picks, percentile_interval
from autoprox.searchspaces import get_space
from autoprox.zoo.published_correlations import PUBLISHED_TABLES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "reproductions"
PAGE = ROOT / "docs" / "results" / "reproductions.md"
FIGURE5 = ROOT / "runs" / "strategies" / "autoformer-auto-prox.json"
PRENAS = RESULTS / "prenas-choices.json"
TOLERANCE = 0.12  # the authors' own code is up to .11 away from what Auto-Prox prints
MOST_NETWORKS, MOST_SEEDS = 300, 5
IMAGES = ("cifar100", "flowers", "chaoyang")
NAMES = {"kendall": "Kendall", "spearman": "Spearman"}
Rows = dict[str, dict[str, dict[str, Any]]]  # proxy, dataset, figure


class Claim(NamedTuple):
    """A table of a paper, and the networks on which it is measured here."""

    source: str
    table: Table
    seeds: int
    correlation: str = "kendall"
    space: str | None = None  # of the paper's networks, if another than the table's

    @property
    def published(self) -> dict[str, dict[str, float]]:
        """Return the published figures by proxy and dataset."""
        found: dict[str, dict[str, float]] = {}
        for own in PUBLISHED_TABLES:
            known = own.space in (self.table.space, self.space)
            dataset = {named.replace("-", ""): named for named in self.table.datasets or ()}.get(
                own.dataset.replace("-", "")
            )
            if own.source == self.source and known and dataset:
                for proxy, values in own.correlations.items():
                    if (value := getattr(values, self.correlation)) is not None:
                        found.setdefault(proxy, {})[dataset] = value
        return found


def _slices(size: str, subset: str = "main") -> Table:
    space = f"autoformer-supernet-{size}"
    return Table("", "ood-vit-nas", space, datasets=("imagenet",), subset=subset)


def _vit_bench(space: str, label: str, *datasets: str) -> Table:
    return Table("", "vit-bench-101", space, datasets=datasets, label=label)


def _texts(dataset: str) -> Table:
    space = "gpt2-lts" if dataset == "wikitext-103" else "gpt2-lts-lm1b"
    return Table("", "lts", space, datasets=(dataset,))


CLAIMS = (
    Claim("Auto-Prox, table 2", _vit_bench("autoformer-ti", "kd", *IMAGES), 3),
    Claim("Auto-Prox, table 2", _vit_bench("pit", "kd", *IMAGES), 3),
    Claim("Auto-Prox, table 5", _vit_bench("autoformer-ti", "supernet", "imagenet"), 3),
    Claim("Auto-Prox, table 6", _vit_bench("pit", "base", *IMAGES), 3, "spearman"),
    Claim("T-Razor, table X, 5 to 7 M", _slices("ti"), 4),
    Claim("T-Razor, table X, 15 to 19 M", _slices("s", "15M-19M"), 4),
    Claim("T-Razor, table X, 23 to 25 M", _slices("s", "23M-25M"), 4),
    Claim("T-Razor, table XII, 4 seeds", _slices("ti"), 4),
    Claim("ETAS, table 1", _slices("ti"), 1),
    Claim("ETAS, table 1", _slices("s"), 1),
    Claim("ETAS, table 3", _texts("wikitext-103"), 3, space="gpt2"),
    Claim("ETAS, table 3", _texts("lm1b"), 3, space="gpt2"),
)
NETWORKS = {
    "Auto-Prox": "the published networks and labels",
    "T-Razor": "other networks of the same supernets and sizes, with accuracies of inherited "
    "weights (OoD-ViT-NAS)",
    "ETAS": "other networks of the same space (OoD-ViT-NAS; LiteTransformerSearch)",
}
REASONS = {  # source, space, proxy ("" for all): what is known of a figure that isn't met
    ("Auto-Prox, table 2", "pit", "naswot"): "the authors' own code gives .52 .59 .53",
    ("Auto-Prox, table 2", "pit", "synflow"): "the authors' own code gives .77 .74 .44",
    (
        "Auto-Prox, table 2",
        "pit",
        "autoprox-p",
    ): "equation 3 gives higher values than the table prints",
    ("Auto-Prox, table 6", "pit", "naswot"): "as in table 2, for which the authors' own code "
    "gives .52 .59 .53",
    ("Auto-Prox, table 5", "autoformer-ti", ""): "the published labels rank the other way round: "
    "the authors' own code gives -.19 for `dss`",
}
EVERY = "linear layers and convolutions of the whole network"
LAYERS = {  # proxies of other layers than the zoo's: what changes, by expression
    "sum(sum(abs(mul(net.weight, net.grad))))": ("snip", EVERY),
    "sum(frobenius_norm(net.grad))": ("grad_norm", EVERY),
    "sum(sum(abs(mul(ones.all.weight, ones.all.grad))))": ("synflow", "linear layers of blocks"),
    "add(sum(mul(nuclear_norm(ones.msa.grad), nuclear_norm(ones.msa.weight))), "
    "sum(sum(abs(mul(ones.mlp.grad, ones.mlp.weight)))))": ("dss", "linear layers of blocks"),
    "add(rank(sum(mul(nuclear_norm(ones.msa.grad), nuclear_norm(ones.msa.weight)))), "
    "rank(sum(sum(abs(mul(ones.mlp.grad, ones.mlp.weight))))))": (
        "dss++",
        "linear layers of blocks",
    ),
}


class Variant(NamedTuple):
    """A way in which a paper may have measured."""

    description: str
    options: Mapping[str, Any]
    layers: bool = False  # the expressions of LAYERS instead of the zoo


VARIANTS = {
    "fresh": Variant("fresh weights for each network", {}),
    "shared": Variant("shared weights: slices of one draw", {"weights": "shared"}),
    "layers": Variant("other layers, fresh weights", {}, layers=True),
    "layers-shared": Variant("other layers, shared weights", {"weights": "shared"}, layers=True),
    "batch-64": Variant("64 inputs instead of 4, fresh weights", {"batch_size": 64}),
    "batch-64-shared": Variant(
        "64 inputs instead of 4, shared weights", {"batch_size": 64, "weights": "shared"}
    ),
}
MAIN = ("fresh", "shared")
CHOICES = (  # PreNAS, Tiny: width, depth, sum of ratios, sum of heads, parameters
    (192, 12, 46.5, 42, 5_994_760),
    (216, 12, 43.0, 44, 6_997_192),
    (240, 12, 45.0, 36, 7_996_552),
    (240, 12, 47.0, 48, 8_967_016),
    (240, 14, 54.0, 51, 9_978_232),
    (240, 14, 56.0, 56, 10_517_272),
)


def tables() -> dict[str, list[Claim]]:
    """Return the claims about each table, by the table's name."""
    found: dict[str, list[Claim]] = {}
    for claim in CLAIMS:
        found.setdefault(claim.table.name, []).append(claim)
    return found


def measure(
    names: Sequence[str],
    variants: Sequence[str],
    workers: int,
    networks: int,
    seeds: int,
    whole_zoo: bool,
) -> None:
    """Rank on the tables that are installed what isn't measured yet."""
    by_name = tables()
    for table in installed_tables([own[0].table for own in by_name.values()], names):
        name, claims = table.name, by_name[table.name]
        for key in variants:
            variant, path = VARIANTS[key], RESULTS / f"{name}-{key}.json"
            if path.exists():
                print(f"{name}, {key}: there already")
            else:
                print(f"{name}, {key}:", flush=True)
                started = time.monotonic()
                RESULTS.mkdir(exist_ok=True)
                found = measured(table, claims, key, variant, workers, networks, seeds, whole_zoo)
                write_json(path, found)
                print(f"{name}, {key}: {time.monotonic() - started:.0f} s", flush=True)


def measured(
    table: Table,
    claims: Sequence[Claim],
    key: str,
    variant: Variant,
    workers: int,
    networks: int,
    seeds: int,
    whole_zoo: bool,
) -> dict[str, Any]:
    """Return the correlations of the claims' proxies on a table; all seeds in the main variants."""
    of = len(table.load().architectures)
    papers = dict.fromkeys(proxy for claim in claims for proxy in claim.published)
    proxies = LAYERS if variant.layers else papers
    board = on_leaderboard(table) if key in MAIN and whole_zoo else None
    options = {
        **table.options(),
        "weights": "fresh",
        **variant.options,
        "proxies": tuple(leaderboard.proxies_of(board).values()) if board else tuple(proxies),
        "seeds": min(max(claim.seeds for claim in claims), seeds) if key in MAIN else 1,
        **({} if board else {"ties": "tau-b"}),
        **({"networks": networks} if of > networks else {}),
    }
    name = f"reproductions-{table.name}-{key}"
    summary = finished_ranking(name, options, workers, show_progress)
    found = described(table, of, options, summary, proxies)
    if board:
        write_json(
            leaderboard.RESULTS / f"{board.name}-{key}.json",
            leaderboard.described(board, options, summary),
        )
    forget(name)
    return found


def on_leaderboard(table: Table) -> Table | None:
    """Return the leaderboard's table with the same networks and labels."""
    for own in leaderboard.TABLES:
        if (own.benchmark, own.space, own.subset) == (table.benchmark, table.space, table.subset):
            mine, theirs = table.load(), own.load()
            if (mine.label, set(mine.datasets)) == (theirs.label, set(theirs.datasets)):
                return own
    return None


def described(
    table: Table,
    of: int,
    options: Mapping[str, Any],
    summary: RankSummary,
    proxies: Container[str],
) -> dict[str, Any]:
    """Return what the page needs of a ranking, of these proxies."""
    rows: Rows = {}
    for row in summary.rows:
        if row.proxy in proxies:
            rows.setdefault(row.proxy, {})[row.dataset] = _figures(row)
    return {
        "benchmark": table.benchmark,
        "space": table.space,
        "networks": summary.networks,
        "of": of,
        "seeds": summary.seeds,
        "weights": options["weights"],
        "batch_size": options.get("batch_size", 4),
        "rows": rows,
    }


def _figures(row: RankRow) -> dict[str, Any]:
    return {
        "kendall": row.tau_b,
        "kendall_interval": row.interval.kendall,
        "kendall_std": row.std.kendall,
        "spearman": row.spearman,
        "spearman_interval": row.interval.spearman,
        "invalid": row.invalid,
    }


def adopt(paths: Sequence[Path]) -> None:
    """Take over finished runs of `autoprox rank` on whole tables."""
    for path in paths:
        found = load_run(path)
        if not isinstance(found, RankResult) or not found.finished:
            raise SystemExit(f"{path} must be a finished run of rank")
        own = found.config
        chosen = {
            claim.table.name: claim.table
            for claim in CLAIMS
            if (claim.table.benchmark, claim.table.space) == (own["benchmark"], own["space"])
            and claim.table.label == own["label"]
            and set(claim.table.datasets or ()) == set(own["datasets"])
        }
        if len(chosen) != 1 or own["images"] or own.get("networks"):
            raise SystemExit(f"{path} must be of one whole table, with noise as input")
        [table] = chosen.values()
        options = {"weights": own.get("weights", "fresh"), "batch_size": own["batch_size"]}
        RESULTS.mkdir(exist_ok=True)
        papers = {p for claim in CLAIMS if claim.table.name == table.name for p in claim.published}
        result = described(table, found.summary.networks, options, found.summary, papers)
        write_json(RESULTS / f"{table.name}-{options['weights']}.json", result)


def choose_as_prenas() -> None:
    """Choose architectures of the Tiny space as PreNAS does, by the authors' draw and by others."""
    space, sizes = get_space("autoformer-supernet-ti"), [n * 1_000_000 for n in range(6, 13)]
    found = {}
    for name in ("released", *map(str, range(5))):
        with single_torch_thread():
            released = name == "released"
            saliency = measure_saliency(space, seed=0 if released else int(name), released=released)
        chosen = IsomerSelector(saliency, "released").choose(sizes)
        found[name] = [
            (
                *(own.architecture["hidden_dim"], own.architecture["depth"]),
                *(sum(own.architecture["mlp_ratio"]), sum(own.architecture["num_heads"])),
                own.params,
            )
            for own in chosen
        ]
        print(f"draw {name}: {len(set(found[name]) & set(CHOICES))} of {len(CHOICES)}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    write_json(PRENAS, found)


def results(table: Table) -> dict[str, dict[str, Any]]:
    """Return what was measured on a table, by variant."""
    files = {key: RESULTS / f"{table.name}-{key}.json" for key in VARIANTS}
    return {key: read_object(path) for key, path in files.items() if path.exists()}


def difference(claim: Claim, proxy: str, rows: Rows) -> str:
    """Return whether figures are met: `in` the interval, `near`, `above`, `below`, or `other`."""
    pairs = []
    for dataset, published in claim.published[proxy].items():
        own = rows.get(proxy, {}).get(dataset, {})
        ours, interval = own.get(claim.correlation), own.get(f"{claim.correlation}_interval")
        if ours is None or interval is None or None in interval:
            return "none"
        pairs.append((published, ours, interval))
    if all(low <= published <= high for published, _, (low, high) in pairs):
        return "in"
    if all(abs(published - ours) <= TOLERANCE for published, ours, _ in pairs):
        return "near"
    signs = {ours > published for published, ours, _ in pairs if abs(published - ours) > TOLERANCE}
    return "other" if len(signs) > 1 else "above" if signs == {True} else "below"


WORDS = {
    "in": "reproduced",
    "near": f"reproduced within {figure(TOLERANCE)}",
    "above": "ours is higher",
    "below": "ours is lower",
    "other": "ours is higher and lower",
    "none": "no value",
}
MET = ("in", "near")


def verdict(claim: Claim, proxy: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what came out for a proxy with each kind of weights."""
    words = {
        key: WORDS[difference(claim, proxy, found[key]["rows"])] for key in MAIN if key in found
    }
    if not words:
        return "not measured"
    if len(set(words.values())) == 1 and len(words) > 1:
        text = next(iter(words.values()))
    else:
        text = "; ".join(f"{own} ({key})" for key, own in words.items())
    reasons = (REASONS.get((claim.source, claim.table.space, own)) for own in (proxy, ""))
    reason = next(filter(None, reasons), None)
    return f"{text}: {reason}" if reason and not _met(claim, proxy, found) else text


def _met(claim: Claim, proxy: str, found: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(difference(claim, proxy, found[key]["rows"]) in MET for key in MAIN if key in found)


def sentence(claim: Claim, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the verdict on a table in one sentence."""
    published = claim.published
    best = max(published, key=lambda proxy: fmean(published[proxy].values()))
    parts = []
    for key in (key for key in MAIN if key in found):
        rows = found[key]["rows"]
        count = sum(difference(claim, proxy, rows) in MET for proxy in published)
        means = {
            proxy: fmean(taus)
            for proxy in published
            if (taus := _known(rows.get(proxy, {}), claim.correlation))
        }
        ours = max(means, key=lambda proxy: means[proxy])
        rival = (
            "and it is best here too"
            if ours == best
            else f"but `{ours}` is best here ({figure(means[ours])}; `{best}`: "
            f"{figure(means.get(best))})"
        )
        parts.append(
            f"with {key} weights, the values of {count} of {len(published)} proxies are "
            f"reproduced, {rival}"
        )
    if not parts:
        return "**Not measured yet.**"
    value = figure(fmean(published[best].values()))
    return f"**The paper's best is `{best}` ({value} on average); {'; '.join(parts)}.**"


def _known(row: Mapping[str, Mapping[str, Any]], correlation: str) -> list[float]:
    return [own[correlation] for own in row.values() if own[correlation] is not None]


def figures_of(claim: Claim, proxy: str, found: Mapping[str, Any] | None) -> str:
    """Return our figures and intervals, a line for each dataset."""
    if found is None or proxy not in found["rows"]:
        return "-"
    rows, name = found["rows"][proxy], claim.correlation
    return "<br>".join(
        f"{figure(rows[dataset][name])} {bounds(rows[dataset][f'{name}_interval'])}"
        for dataset in claim.published[proxy]
    )


def claim_section(claim: Claim) -> Iterator[str]:
    """Yield the paragraphs on a table of a paper."""
    found, published = results(claim.table), claim.published
    datasets = claim.table.datasets or ()
    title = f"### {claim.source}: `{claim.table.space}`"
    yield title if len(datasets) > 1 else f"{title}, {datasets[0]}"
    yield sentence(claim, found)
    if not any(key in found for key in MAIN):
        return
    settings = "; ".join(
        f"{own['networks']} of {own['of']} networks with {key} weights (seeds: {own['seeds']})"
        for key, own in found.items()
        if key in MAIN
    )
    paper = claim.source.partition(",")[0]
    order = f" ({', '.join(datasets)}, in this order)" if len(datasets) > 1 else ""
    yield f"{NAMES[claim.correlation]} on {NETWORKS[paper]}{order}: {settings}."
    shown = [key for key in MAIN if key in found]
    heads = ("proxy", "published", *(f"ours, {key} weights" for key in shown), "verdict")
    lines = [markdown_line(heads), markdown_line(["---"] * len(heads))]
    for proxy, values in published.items():
        ours = (figures_of(claim, proxy, found[key]) for key in shown)
        printed = "<br>".join(map(figure, values.values()))
        lines.append(markdown_line([f"`{proxy}`", printed, *ours, verdict(claim, proxy, found)]))
    yield "\n".join(lines)
    unmet = [proxy for proxy in published if not _met(claim, proxy, found)]
    if tried := list(tried_lines(claim, found, unmet)):
        heads = ("proxy", "tried", "networks", "published", "ours")
        head = (markdown_line(heads), markdown_line(["---"] * len(heads)))
        yield "Other settings that were tried for proxies whose published values aren't reproduced:"
        yield "\n".join([*head, *tried])


def tried_lines(
    claim: Claim, found: Mapping[str, Mapping[str, Any]], unmet: Iterable[str]
) -> Iterator[str]:
    """Yield a line for each variant of a proxy that isn't met."""
    for proxy in unmet:
        printed = "<br>".join(map(figure, claim.published[proxy].values()))
        for key in (key for key in VARIANTS if key in found and key not in MAIN):
            variant, rows = VARIANTS[key], found[key]["rows"]
            names = {proxy: variant.description}
            if variant.layers:
                names = {
                    expression: f"{variant.description}: {layers}"
                    for expression, (own, layers) in LAYERS.items()
                    if own == proxy
                }
            for name, tried in names.items():
                if name in rows:
                    own = "<br>".join(
                        f"{figure(rows[name][dataset][claim.correlation])} "
                        f"{bounds(rows[name][dataset][f'{claim.correlation}_interval'])}"
                        for dataset in claim.published[proxy]
                    )
                    count = str(found[key]["networks"])
                    yield markdown_line([f"`{proxy}`", tried, count, printed, own])


def figure5() -> str:
    """Return the verdict on Auto-Prox's claim that elitism finds the best proxies."""
    found = read_object(FIGURE5)
    finals = {
        strategy: np.array([own[-1][1] for own in curves.values()])
        for strategy, curves in found["curves"].items()
    }
    ours = ", ".join(f"{name} {own.mean():.3f}" for name, own in finals.items())
    seeds = len(finals["elitist"])
    best = max((name for name in finals if name != "elitist"), key=lambda n: finals[n].mean())
    lead = finals["elitist"] - finals[best]
    low, high = percentile_interval(lead[bootstrap_picks(seeds, 0)].mean(axis=1))
    judged = "Reproduced" if low > 0 else "Not reproduced" if high < 0 else "Inconclusive"
    return (
        f"**{judged}: the paper's elitist evolution finds better proxies than its rivals; here the "
        f"mean fitness after {found['budget']} evaluations is {ours} (seeds: {seeds}), and elitist "
        f"minus {best} is {lead.mean():+.3f} [{low:.3f}, {high:.3f}].**"
    )


def prenas_choices() -> Iterator[str]:
    """Yield the paragraphs on the choices that PreNAS's authors released."""
    if not PRENAS.exists():
        yield "**Not measured yet.**"
        return
    found = {name: {tuple(own) for own in rows} for name, rows in read_object(PRENAS).items()}
    counts = {name: len(own & set(CHOICES)) for name, own in found.items()}
    others = [name for name in found if name != "released"]
    listed = ", ".join(str(counts[name]) for name in others)
    yield (
        "**With the weights, images and dropped branches that the authors' code draws, "
        f"{counts['released']} of the {len(CHOICES)} released choices for the Tiny space are "
        f"found; {len(others)} other draws find {listed} of them.**"
    )
    hits = Counter(own for name in others for own in found[name])
    sizes = ("width", "depth", "sum of MLP ratios", "sum of heads", "parameters")
    heads = (*sizes, "authors' draw", "other draws")
    lines = [markdown_line(heads), markdown_line(["---"] * len(heads))]
    for own in CHOICES:
        same = "yes" if own in found["released"] else "no"
        shown = [*map(str, own[:-1]), f"{own[-1]:,}", same, f"{hits[own]} of {len(others)}"]
        lines.append(markdown_line(shown))
    yield "\n".join(lines)


def page() -> str:
    """Return the page."""
    parts = [
        "<!-- Written by runs/scripts/reproductions.py page: change it there. -->",
        "# Reproductions",
        "What papers report, and what is measured here with the same networks or, if these aren't "
        "published, with public ones of the same kind. Inputs are four images or sequences of "
        "seeded noise unless stated otherwise. Our values are means over the seeds, with "
        "bootstrap 95 % intervals over the networks.",
        "A published value is *reproduced* if it lies within our interval on every dataset, or "
        "else within "
        f"{figure(TOLERANCE)}: the authors' own code, run on the published networks, is up to .11 "
        "away from the figures in Auto-Prox. *Fresh* weights are drawn for each network; *shared* "
        "weights are slices of one draw, as in the code of T-Razor and PreNAS. Networks here "
        "have no dropout, stochastic depth or batch statistics, so training and evaluation mode "
        "are the same.",
        "## Correlations",
        *(part for claim in CLAIMS for part in claim_section(claim)),
        "## Searches",
        "### Auto-Prox, figure 5",
        figure5(),
        "### PreNAS: the released choices",
        *prenas_choices(),
        "Made by `python runs/scripts/reproductions.py measure`, `prenas` and `page`, from the "
        "files of `runs/reproductions/`.",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    own = modes.add_parser("measure")
    for name, known in (("tables", tables()), ("variants", VARIANTS)):
        own.add_argument(
            f"--{name}", type=lambda text: text.split(","), default=[*known], help=", ".join(known)
        )
    own.add_argument("--workers", type=int, default=1)
    own.add_argument("--networks", type=int, default=MOST_NETWORKS, help="most of a table")
    own.add_argument("--seeds", type=int, default=MOST_SEEDS, help="at most; else the paper's")
    own.add_argument("--papers", action="store_true", help="their proxies, never the whole zoo")
    modes.add_parser("adopt").add_argument("runs", nargs="+", type=Path)
    modes.add_parser("prenas")
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        PAGE.parent.mkdir(exist_ok=True)
        write_text(PAGE, page())
    elif given.mode == "adopt":
        adopt(given.runs)
    elif given.mode == "prenas":
        choose_as_prenas()
    else:
        if unknown := sorted(set(given.variants) - set(VARIANTS)):
            raise SystemExit(f"unknown variant {unknown[0]}; choose from {', '.join(VARIANTS)}")
        measure(
            given.tables,
            given.variants,
            given.workers,
            given.networks,
            given.seeds,
            not given.papers,
        )


if __name__ == "__main__":
    main()
