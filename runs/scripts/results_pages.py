"""The pages of results that are made from the runs and measurements in this folder.

    python runs/scripts/results_pages.py

It writes docs/results/formulas.md, transfer.md, search.md, supernets.md, speed.md and proofs.md.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from leaderboard import TABLES
from scipy.stats import t

RUNS = Path(__file__).parents[1]
PAGES = RUNS.parent / "docs" / "results"
MADE = "<!-- Written by runs/scripts/results_pages.py: change it there. -->"
SPLIT_METHODS = {
    "proxy": "power law",
    "committee": "committee",
    "joint-ridge": "joint ridge",
    "ridge": "ridge",
    "gaussian-process": "Gaussian process",
    "predictor": "predictor",
    "params": "parameters",
}
JUDGED_SPLITS = 5  # fewer give no interval
TITLES = {
    "autoformer-nano": "nano-bench, AutoFormer",
    "pit-nano": "nano-bench, PiT",
    "gpt2-nano": "nano-bench, GPT-2",
    "autoformer-ti": "ViT-Bench-101, AutoFormer",
    "pit": "ViT-Bench-101, PiT",
    "flexibert": "NAS-Bench-BERT",
    "gpt2-hw": "HW-GPT-Bench (labels from a surrogate)",
}
INTERVALS = (
    "Intervals of single runs are bootstrap 95 % intervals over the test networks; a difference is "
    "tested by a paired bootstrap. Intervals over splits or seeds are Student's t at 95 %. Splits "
    "of one benchmark share networks, so intervals over splits are somewhat too narrow."
)


class Reference(NamedTuple):
    """A run of one split on one space, and its folder's parts."""

    space: str
    split: int
    expression: str
    quality: Mapping[str, Any]
    seconds: float


def read(path: str) -> Any:
    """Return a JSON document of this folder."""
    return json.loads((RUNS / path).read_text())


def lines_of(path: str) -> list[Any]:
    """Return the documents of a file with one in each line."""
    return [json.loads(line) for line in (RUNS / path).read_text().splitlines()]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: float | None, digits: int = 2) -> str:
    """Format a number; -0.00 is 0.00."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def between(ends: Sequence[float | None]) -> str:
    """Format an interval."""
    return f"[{figure(ends[0])}, {figure(ends[1])}]"


def over(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the mean of some values, and Student's 95 % interval of it."""
    own = np.array(values)
    half = float(t.ppf(0.975, len(own) - 1) * own.std(ddof=1) / len(own) ** 0.5)
    mean = float(own.mean())
    return mean, (mean - half, mean + half)


def verdict(ends: Sequence[float]) -> str:
    """Say what the interval of a difference allows to say."""
    if ends[0] > 0:
        return "better"
    return "worse" if ends[1] < 0 else "not significantly different"


def difference(values: Sequence[float]) -> str:
    """Format the mean of paired differences with its interval and the verdict."""
    mean, ends = over(values)
    return f"{mean:+.2f} {between(ends)}, {verdict(ends)}"


def compared(quality: Mapping[str, Any], name: str, metric: str = "kendall") -> str:
    """Format the difference between a run's proxy and a baseline."""
    found = quality["comparison"][name][metric]
    return f"{found['difference']:+.2f} {between(found['interval'])}, {found['verdict']}"


def references(folder: str) -> dict[str, list[Reference]]:
    """Return the runs on one space, by space and in the order of their splits."""
    found: dict[str, list[Reference]] = defaultdict(list)
    for path in sorted((RUNS / folder).glob("2*")):
        config, summary = (read(f"{path}/{name}.json") for name in ("config", "summary"))
        [(space, quality)] = summary["folds"][0]["spaces"].items()
        split, seconds = config["split_seed"], summary["seconds"]
        found[config["space"] or space].append(
            Reference(space, split, summary["expression"], quality, seconds)
        )
    return {
        space: sorted(found[space], key=lambda own: own.split) for space in TITLES if space in found
    }


def formulas() -> str:
    """Return the page on the formulas of the reference runs."""
    plain, adjusted = references("reference"), references("size-adjusted")
    parts = [
        "Formulas that `evolve --form tree` found on several splits of each benchmark, and how "
        "well each ranks the networks that the evolution never saw. The results of power laws, the "
        f"default form, are on the other pages. {INTERVALS}",
        "## Each split",
    ]
    for space, runs in plain.items():
        rows = []
        for own in runs:
            test = own.quality["means"]["proxy"]["test"]
            rows.append(
                [
                    str(own.split),
                    f"{figure(test['kendall'])} {between(test['interval'])}",
                    f"{figure(test['partial_tau'])} {between(test['partial_tau_interval'])}",
                    compared(own.quality, "params"),
                    compared(own.quality, "ridge"),
                    figure(own.quality["size"]["test"]["params"]),
                    f"{100 * (own.quality['seed_share'] or 0):.0f} %",
                    f"`{own.expression}`",
                ]
            )
        headings = (
            "split", "Kendall tau (test)", "partial tau", "tau minus that of parameter count",
            "tau minus that of ridge regression", "tau with parameter count",
            "spread due to the seed", "formula",
        )  # fmt: skip
        parts += [f"### {TITLES[space]}", table(headings, rows)]
    parts += [
        "*Spread due to the seed* is how much the scores change with another seed, relative to "
        "their spread over the networks.",
        "## What they measure",
        "The effective rank of a random weight matrix grows with its smaller dimension. "
        "`sum(effective_rank(ones.mlp.weight))` therefore grows with depth times width; another "
        "seed changes it by less than 1 % of its spread. The parameter count grows with the square "
        "of the width, so among networks with the same parameter count this formula prefers deep "
        "and narrow ones.",
        "Sums of magnitudes, such as `l1_norm(l1_norm(ones.all.weight))`, follow the parameter "
        "count: see the column *tau with parameter count*.",
        "On nano-bench's GPT-2, four of five formulas take the minimum over the layers of a "
        "reduction of attention gradients, so a single layer determines the score; their taus "
        "with the parameter count are negative.",
        "## Controlling for size",
        "The table shows how much `--objective size-adjusted` changes the taus in comparison with "
        "the default objective on the same splits: means of the paired differences.",
        table(
            ("benchmark", "splits", "Kendall tau", "partial tau"),
            (
                [TITLES[space], str(len(runs)), *changes(plain[space], runs)]
                for space, runs in adjusted.items()
            ),
        ),
        "## Known proxies, rediscovered",
        "`autoprox rediscover` evolves formulas from a proxy's scores alone. Each proxy has ten "
        "runs with different seeds, of at most ten minutes each. The rate of rediscovery has a "
        "Wilson 95 % interval.",
        table(
            ("proxy", "rediscovered", "evidence", "median time (CPU s)", "example"), rediscovered()
        ),
    ]
    source = "`runs/reference`, `runs/size-adjusted` and `runs/rediscovery/results.jsonl`"
    return page("Formulas and what they measure", source, *parts)


def changes(first: Sequence[Reference], second: Sequence[Reference]) -> list[str]:
    """Return the paired differences of two metrics between runs on the same splits."""
    pairs = [(a.quality["means"]["proxy"]["test"], b.quality["means"]["proxy"]["test"])
             for a in first for b in second if a.split == b.split]  # fmt: skip
    return [
        difference([b[metric] - a[metric] for a, b in pairs])
        for metric in ("kendall", "partial_tau")
    ]


def rediscovered() -> Iterable[list[str]]:
    """Yield a row for each proxy that was to be rediscovered."""
    groups = defaultdict(list)
    for line in lines_of("rediscovery/results.jsonl"):
        groups[line["target"]].append(line)
    for name, lines in groups.items():
        good = [line for line in lines if line["success"]]
        count = Counter(line["evidence"] for line in good)
        evidence = ", ".join(f"{word} ({number})" for word, number in count.most_common())
        shortest = min((line["expression"] for line in good), key=len)
        yield [
            f"`{name}`",
            f"{len(good)} of {len(lines)} {between(wilson(len(good), len(lines)))}",
            evidence,
            f"{median(line['cpu_seconds'] for line in good):.0f}",
            f"`{shortest}`",
        ]


def wilson(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a rate."""
    rate, square = successes / trials, z * z / trials
    middle = (rate + square / 2) / (1 + square)
    half = z * (rate * (1 - rate) / trials + square / (4 * trials)) ** 0.5 / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def transfer() -> str:
    """Return the page on formulas on spaces that they weren't evolved on."""
    found = read("measured/transfer.json")
    spaces = list(found["test"])
    rows = []
    for origin in dict.fromkeys(own["space"] for own in found["proxies"]):
        indices = [i for i, own in enumerate(found["proxies"]) if own["space"] == origin]
        for space in spaces:
            measured = found["test"][space]
            splits = {tuple(own["split"]): None for own in found["proxies"]}
            numbers = {split: n for n, split in enumerate(splits)}
            gains, taus = defaultdict(list), []
            for i in indices:
                tau = mean_tau(measured["proxies"][i])
                taus.append(tau)
                for name in ("params", "ridge"):
                    number = numbers[tuple(found["proxies"][i]["split"])]
                    gains[name].append(tau - mean_tau(measured[name][number]))
            mean, ends = over(taus)
            rows.append(
                [
                    TITLES[origin],
                    TITLES[space] + (" (the same)" if space == origin else ""),
                    f"{figure(mean)} {between(ends)}",
                    difference(gains["params"]),
                    difference(gains["ridge"]),
                ]
            )
    across = read("measured/across-spaces.json")
    left_out = across["methods"]["by the correlation on the space left out"]["outer"]
    laws = [
        [
            TITLES[space], str(own["networks"]), figure(own["tau"]), figure(own["params"]),
            f"{own['difference']:+.2f} {between(own['interval'])}, {verdict(own['interval'])}",
        ]
        for space, own in left_out.items()
    ]  # fmt: skip
    gain = fmean(own["difference"] for own in left_out.values())
    worse = sum(own["interval"][1] < 0 for own in left_out.values())
    held_out = []
    for folder, objective in (
        ("20261119T153833Z-hold-out-each", "joint metric"),
        ("20261119T162031Z-hold-out-each-equal-size", "size-adjusted"),
    ):
        for fold in read(f"spaces/{folder}/summary.json")["folds"]:
            quality = fold["spaces"][fold["held_out"]]
            test = quality["means"]["proxy"]["test"]
            space = {"autoformer": "autoformer-ti"}.get(fold["held_out"], fold["held_out"])
            held_out.append(
                [
                    objective,
                    TITLES[space],
                    f"{figure(test['kendall'])} {between(test['interval'])}",
                    f"{figure(test['partial_tau'])} {between(test['partial_tau_interval'])}",
                    compared(quality, "params"),
                ]
            )
    return page(
        "Transfer between spaces",
        "`runs/measured/transfer.json` and `runs/spaces`",
        "A formula that was evolved on one search space may rank the networks of another badly. "
        "The first section tests power laws that were fitted to four spaces on a fifth. The others "
        "test formulas of the tree form: first those evolved on a single space, on other spaces; "
        "then those evolved on three spaces, on a fourth that was held out. "
        f"{INTERVALS}",
        "## A power law for an unseen space",
        f"The tau of the power law minus that of the parameter count is {gain:+.2f} on average, "
        f"and significantly below zero on {worse or 'none'} of the {len(left_out)} spaces. Its "
        f"terms are selected from {across['terms']} random ones as in `evolve --spaces A,B,C`: "
        "they are the best if each training space is ranked by a fit to the other training "
        "spaces. They aren't evolved, and there is no committee. The test networks are all those "
        "of the space that was left out.",
        table(
            ("left out", "networks", "power law", "parameters", "difference"),
            laws,
        ),
        "Made by `python runs/scripts/choose_across_spaces.py`. [What else was "
        "tried](selection.md#several-spaces).",
        "## Formulas from one space, tested on others",
        "Kendall tau on the test networks of the formula's own split: means over the datasets and "
        "over five runs. The baselines are the parameter count and a ridge regression that was "
        "fitted to the training networks of the space on which the formula is tested.",
        table(
            ("evolved on", "tested on", "Kendall tau", "minus parameter count",
             "minus ridge regression"),
            rows,
        ),
        "## One tree for several spaces",
        "Each formula was evolved by `autoprox evolve --form tree --spaces "
        "autoformer,pit,autoformer-nano,pit-nano --hold-out each` on three of the spaces, and "
        "tested on all networks of the fourth.",
        table(
            ("objective", "held out", "Kendall tau", "partial tau",
             "tau minus that of parameter count"),
            held_out,
        ),
        "No tree here ranks well on every space. Deeper networks are better after the long "
        "training of ViT-Bench-101's AutoFormers, but worse after the short training of nano-bench "
        "(`python runs/scripts/depth_correlation.py`), so a formula that ranks one well ranks the "
        "other badly.",
    )  # fmt: skip


def mean_tau(rows: Mapping[str, Any]) -> float:
    """Return the mean tau over the datasets."""
    return fmean(row["kendall"] for row in rows.values())


def splits() -> str:
    """Return the page on power laws and regressions from the same labels."""
    verdicts: dict[str, list[str]] = defaultdict(list)
    joint, alone = split_rows("fresh", verdicts), split_rows("fresh-each", defaultdict(list))
    better, worse = (
        f" ({', '.join(verdicts[name])})" if verdicts[name] else "" for name in ("better", "worse")
    )
    columns = ("table", "labels, test networks", "splits", *SPLIT_METHODS.values(),
               "power law minus ridge", "splits better, worse")  # fmt: skip
    parts = [
        "## A power law for each dataset",
        "Evolved for one dataset after the other, with the same splits (`--each-dataset`).",
        table(columns[:-1], [row[:-1] for row in alone]),
    ] if alone else []  # fmt: skip
    return page(
        "Power laws and regressions from the same labels",
        "`runs/evolution-splits`",
        f"On average over the splits, the power law ranks significantly better than ridge "
        f"regression on {len(verdicts['better'])} of the {sum(map(len, verdicts.values()))} tables "
        f"with at least {JUDGED_SPLITS} splits{better}, and significantly worse on "
        f"{len(verdicts['worse']) or 'none'}{worse}.",
        "Kendall tau on test networks, with ties counted as unordered: means over the datasets and "
        "over random splits into training and test networks. All methods of a row are fitted to "
        "the same training networks; the parameter count needs none. Intervals are Student's t at "
        "95 % over the splits; they are somewhat too narrow, because splits share networks, and "
        f"with fewer than {JUDGED_SPLITS} splits there are none. The "
        "last column counts the splits on which the power law alone is significantly better or "
        "worse than ridge regression, by a paired bootstrap over the test networks.",
        "A power law and its committee rank alike for all datasets of a table. Ridge regression, "
        "the Gaussian process and the predictor are fitted to each dataset alone; *joint ridge* is "
        "a ridge regression on the mean ranks over the datasets, which ranks alike for all.",
        table(columns, joint),
        *parts,
        "The runs were made by `python runs/scripts/evolution_splits.py`.",
    )  # fmt: skip


def split_rows(kind: str, verdicts: dict[str, list[str]]) -> list[list[str]]:
    """Return a row for each table with evolutions on several splits, and add to the verdicts."""
    rows = []
    for own in TABLES:
        path = RUNS / "evolution-splits" / f"{own.name}-power-law-{kind}.json"
        if not path.exists():
            continue
        found = list(json.loads(path.read_text()).values())
        taus = {
            name: [each["test"][name] for each in found if each["test"].get(name) is not None]
            for name in SPLIT_METHODS
        }
        gains = [one - other for one, other in zip(taus["proxy"], taus["ridge"], strict=True)]
        counts = Counter(each["verdicts"]["ridge"] for each in found if "verdicts" in each)
        if len(gains) >= JUDGED_SPLITS:
            verdicts[verdict(over(gains)[1])].append(own.title)
            gain = difference(gains)
        else:
            gain = f"{fmean(gains):+.2f}"
        cells = [split_cell(values) for values in taus.values()]
        rows.append([
            own.title, f"{found[0]['labels']}, {found[0]['networks']}", str(len(found)), *cells,
            gain, f"{counts['better']}, {counts['worse']}",
        ])  # fmt: skip
    return rows


def split_cell(taus: Sequence[float]) -> str:
    """Write a mean over splits, with an interval if there are enough of them."""
    if len(taus) < JUDGED_SPLITS:
        return figure(fmean(taus)) if taus else "-"
    mean, ends = over(taus)
    return f"{figure(mean)} {between(ends)}"


def search() -> str:
    """Return the page on searches: strategies, inherited weights, picks."""
    regret = read("measured/search_regret.json")["settings"]
    strategies = ("random", "evolution", "etas", "blockwise")
    rows = []
    for name, setting in regret.items():
        proxy, _, limit = name.partition(" ")
        runs = {
            own: np.array([one["perplexity"][-1] for one in setting["curves"][own]["runs"]])
            for own in strategies
        }
        cells = []
        for own in strategies:
            mean, ends = over(runs[own] - setting["least"])
            cells.append(f"{figure(mean)} {between(ends)}")
        rows.append([f"`{proxy}`", limit.replace(":80M", "at most 80 M parameters"), *cells])
    inherited = read("measured/search_inherited.json")
    pick = read("measured/search_pick.json")["datasets"]
    evolution = read("strategies/autoformer-nano.json")["curves"]
    fitness = {name: [own[-1][1] for own in seeds.values()] for name, seeds in evolution.items()}
    return page(
        "Searches",
        "`runs/measured` and `runs/strategies`",
        INTERVALS,
        "## Search strategies",
        "Regret on HW-GPT-Bench after 1,300 candidates: the perplexity of the network that a "
        "search returns, as predicted by the benchmark's surrogate, minus the lowest perplexity "
        "known within the limit. Lower is better. Means over ten seeds, with inherited weights "
        "(`python tests/bench/regret.py`). `etas` also asks the benchmark for the perplexity of a "
        "few candidates; the others follow the proxy alone.",
        table(("proxy", "limit", *(f"`{name}`" for name in strategies)), rows),
        "## Inherited and fresh weights",
        "Kendall taus between the inherited scores, fresh scores and parameter counts of 200 "
        "candidates of `autoformer-supernet-ti`, and the speed of a search with inherited weights "
        "on one thread (`python tests/bench/search.py inherited`). For four of the six proxies, "
        "inherited scores follow the parameter count more closely than fresh ones do.",
        table(
            ("proxy", "inherited and fresh", "inherited and parameters", "fresh and parameters",
             "candidates per CPU second"),
            (
                [
                    f"`{name}`",
                    *(figure(own[key]) for key in
                      ("inherited_fresh", "inherited_params", "fresh_params")),
                    f"{inherited['random'][name]['per_processor_second']:,.0f}"
                    if name in inherited["random"] else "-",
                ]
                for name, own in inherited["tau"].items()
            ),
        ),
        "## Picks without a size limit",
        "Accuracy (%) of the network that each proxy scores highest among 100 AutoFormers of "
        "ViT-Bench-101, seed 0 (`python tests/bench/search.py pick`). A single pick has no "
        "interval. Without a limit on size, the largest network is a strong baseline.",
        table(
            ("picked by", *pick),
            [
                *(
                    [words, *(f"{own[key]:.2f}" for own in pick.values())]
                    for key, words in
                    (("best", "the true accuracy"), ("largest", "the parameter count"),
                     ("mean", "a random choice (mean of all)"))
                ),
                *(
                    [f"`{name}`", *(f"{own['picks'][name]:.2f}" for own in pick.values())]
                    for name in next(iter(pick.values()))["picks"]
                ),
            ],
        ),
        "## Evolution strategies",
        "Fitness on the training networks of nano-bench's AutoFormers after 1,000 formulas of the "
        "tree form, ten seeds (`python tests/bench/strategies.py`).",
        table(
            ("strategy", "fitness", "minus `mixture` (paired by seed)"),
            (
                [
                    f"`{name}`",
                    f"{figure(over(values)[0], 3)} {between(over(values)[1])}",
                    "-" if name == "mixture" else
                    difference([b - a for a, b in zip(fitness["mixture"], values, strict=True)]),
                ]
                for name, values in fitness.items()
            ),
        ),
    )  # fmt: skip


def supernets() -> str:
    """Return the page on the claims of PreNAS and S3."""
    prenas, s3 = ((RUNS / name / "results.md").read_text().strip() for name in ("supernet", "s3"))
    return page(
        "Supernets",
        "`runs/supernet/results.md` and `runs/s3/results.md`, which "
        "`python runs/scripts/oneshot_verdicts.py` writes",
        "The claims of PreNAS and S3, tested with networks that are small enough to train on a "
        "CPU. These results for small networks and short training neither confirm nor refute what "
        "the papers report for ImageNet. Each claim has an interval over three seeds and a "
        "verdict. The READMEs next to the results give the settings.",
        "## PreNAS",
        prenas,
        "## S3",
        s3,
    )


def speed() -> str:
    """Return the page on speed."""
    startup, engine, scale = (read(f"measured/{n}.json") for n in ("startup", "engine", "scale"))
    bandwidth, kernels = read("measured/bandwidth.json")["bandwidth"], read("measured/kernels.json")
    nano, long = read("measured/scale-nano.json"), read("measured/long.json")
    words = {"rank": "`rank`", "search": "`search`, fresh weights", "collect": "`evolve`, passes"}
    times = engine["workers"]["times_faster"]["100 random formulas"]
    minutes = engine["formulas"]["cpu_minutes_for_20000"]
    terms = read("measured/terms.json")["terms"]
    large = read("measured/large_table.json")
    passes, evolution = large["passes"], large["evolve"]
    return page(
        "Speed and memory",
        "`runs/measured`",
        "Measured on two cores of a shared machine with torch 2.13 for CPUs. A ratio compares two "
        "measurements of one run of a script. Each figure is a single measurement without an "
        "interval, so differences below 10 % may be noise.",
        "## Start",
        table(
            ("command", "seconds"),
            (
                [f"`{name}`", figure(own["seconds"])]
                for name, own in startup["seconds"].items()
                if name in ("import autoprox", "autoprox --help", "autoprox bench list",
                            "autoprox evolve --help")
            ),
        ),
        "`python tests/bench/startup.py`",
        "## Passes and formulas",
        table(
            ("task", "measured"),
            [
                ["passes of four AutoFormers, keeping their statistics, relative to bare passes "
                 "(CPU time)", f"{engine['collection']['ratio']:.2f} times"],
                ["SNIP at full resolution on these networks, relative to bare passes (CPU time)",
                 f"{engine['final']['ratio']:.2f} times"],
                ["100 random formulas on 60 AutoFormers: two workers relative to one",
                 f"{times:.2f} times as fast"],
                ["20,000 formulas on four spaces with successive halving, one worker, "
                 "extrapolated from 2,000", f"{minutes:.0f} CPU minutes"],
                [f"{terms['terms']:,} terms of power laws on four spaces, "
                 f"{terms['workers']} workers", f"{terms['seconds'] / 60:.1f} minutes, "
                 f"{terms['cpu_seconds'] / 60:.0f} CPU minutes"],
            ],
        ),
        "`python tests/bench/engine.py collection final workers formulas` and "
        "`python tests/bench/engine.py terms --formulas 20000`",
        "CPU time of elementwise formulas on the matrices of an AutoFormer, relative to copying "
        "their inputs once (`python tests/bench/engine.py bandwidth`):",
        table(
            ("formula", "times a copy"),
            ([f"`{own['expression']}`", figure(own["ratio"], 1)] for own in bandwidth["trees"]),
        ),
        "Similar formulas evaluated by the engine, by numexpr and by a loop compiled with numba, "
        "relative to a copy (`python tests/bench/kernels.py`). numba is faster on plain "
        "arithmetic, but both are much slower on exponentials and logarithms, so neither is used.",
        table(
            ("formula", "engine", "numexpr", "numba"),
            (
                [f"`{own['formula']}`",
                 *(figure(own[key], 1) for key in ("operations", "numexpr", "numba"))]
                for own in kernels["rows"]
            ),
        ),
        "## Large tables",
        table(
            ("AutoFormers of ood-vit-nas, size Tiny", "measured"),
            [
                [f"passes of {passes['networks']:,} networks, keeping their statistics, on one "
                 "thread, relative to bare passes (CPU time)", f"{passes['ratio']:.2f} times"],
                [f"evolution with {evolution['evaluations']:,} formulas on "
                 f"{evolution['training_networks']} networks, with an empty cache: time to measure "
                 "the networks", f"{evolution['collecting_seconds'] / 60:.0f} minutes"],
                ["the same: time to evolve the formulas",
                 f"{evolution['evolving_seconds'] / 60:.0f} minutes"],
                ["the same: peak resident memory", f"{evolution['peak_gib']:.1f} GiB"],
            ],
        ),
        "`python tests/bench/large_table.py passes evolve`",
        "## Workers of a cluster",
        "Speed-up of a dask cluster on this machine over one thread without it "
        "(`python tests/bench/scale.py`). With two cores, four workers can't be faster than two. "
        "Measuring a small network takes less time than sending it.",
        table(
            ("task", "networks", "seconds for each", "1 worker", "2 workers", "4 workers"),
            (
                [
                    words[task], title, f"{own[task]['seconds_for_each']:.2g}",
                    *(figure(own[task]["speedup"][n]) for n in ("1", "2", "4")),
                ]
                for title, own in (("AutoFormer", scale), ("`nano-bench`", nano))
                for task in words if task in own
            ),
        ),
        "## Long runs",
        "Memory and open files of one process, from a tenth of the run to its end "
        "(`python tests/bench/long.py`).",
        table(
            ("run", "resident memory (MB)", "open files"),
            (
                [f"{notes[-1]['done']:,} {what}",
                 *(f"{notes[len(notes) // 10][key]:.0f} to {notes[-1][key]:.0f}"
                   for key in ("resident_mb", "files"))]
                for notes, what in ((long["evolve"]["notes"], "formulas"),
                                    (long["search"]["notes"], "candidates"))
            ),
        ),
    )  # fmt: skip


def proofs() -> str:
    """Return the page on what is proved about the code."""
    fuzz, same, crash = (read(f"measured/{name}.json") for name in ("fuzz", "same", "crash"))
    writes, mutation = read("measured/writes.json"), read("measured/mutation.json")
    files = lines_of("measured/fuzz_files.json")
    cases = [own for one in same["variations"].values() for own in one["cases"].values()]
    expected = len(same["expected"])
    faults = sum(bool(own["faults"]) for own in crash["trials"].values())
    failed = sum(own["failed"] for own in writes.values())
    bad = sum(len(own["faults"]) for own in writes.values())
    differing = sum(bool(own["differs"]) for own in cases)
    return page(
        "Proofs for developers",
        "`runs/measured`",
        "What scripts have shown about the code. They take minutes to hours, so they aren't part "
        "of the tests; each can be stopped and continued. The figures come from the last "
        "recorded run of each script.",
        table(
            ("claim", "result", "script"),
            [
                ["random trees, mutants and offspring respect types and limits, and can be "
                    "parsed from their own text",
                 f"{fuzz['checked']:,} trees, {fuzz['distinct']:,} distinct, none wrong",
                 "`python tests/fuzz/language.py 100000`"],
                ["a result depends on the seed alone: not on workers, hash seeds, threads, memory, "
                 "a cluster, or on being killed and resumed",
                 f"{len(cases) - differing} of {len(cases)} results identical; the others are "
                 f"{expected} trainings on several processes, each of which draws its own crops",
                 "`python tests/proofs/same.py`"],
                ["a command that was killed or interrupted can be resumed",
                 f"{len(crash['trials'])} interruptions, {faults} faults",
                 "`python tests/proofs/crash.py`"],
                ["a write that fails leaves no damage", f"{failed} failed writes, {bad} faults",
                 "`python tests/proofs/writes.py`"],
                ["no file content executes code, exhausts memory or causes a traceback",
                 f"{sum(own['read'] for own in files):,} contents read by {len(files)} readers, "
                 f"{sum(bool(own['found']) for own in files)} findings",
                 "`python tests/fuzz/files.py all`"],
                *(
                    [f"the tests notice random changes to the code: {name}",
                     f"{sum(own['killed'].values())} of {len(own['killed'])} "
                     f"{between(wilson(sum(own['killed'].values()), len(own['killed'])))}",
                     f"`python tests/proofs/mutate.py {name}`"]
                    for name, own in mutation.items()
                ),
            ],
        ),
        "Intervals are Wilson's, at 95 %.",
    )  # fmt: skip


def page(title: str, source: str, *parts: str) -> str:
    """Return a page with its source."""
    made = f"Made by `python runs/scripts/results_pages.py` from {source}."
    return "\n\n".join([MADE, f"# {title}", *parts, made]) + "\n"


PAGE_FUNCTIONS: dict[str, Callable[[], str]] = {
    "formulas.md": formulas,
    "transfer.md": transfer,
    "splits.md": splits,
    "search.md": search,
    "supernets.md": supernets,
    "speed.md": speed,
    "proofs.md": proofs,
}


def page_files() -> dict[Path, str]:
    """Return every page by its path."""
    return {PAGES / name: function() for name, function in PAGE_FUNCTIONS.items()}


if __name__ == "__main__":
    for path, text in page_files().items():
        path.write_text(text)
