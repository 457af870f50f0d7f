"""The first sentences of a report: how well a proxy ranks, compared with what, and why."""

from collections.abc import Mapping, Sequence

from autoprox.commands.evolve import EvolutionFold
from autoprox.commands.rank import RankSummary
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.evolution.prior_fit import ENOUGH_LABELS
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.scoring.bootstrap import Interval, MetricDifferences, RankingMetrics

FEWEST = 15  # test networks, below which an interval says next to nothing
RIVALS = {
    "params": "parameter count",
    "ridge": "ridge regression",
    "gaussian-process": "a Gaussian process",
}
REGRESSIONS = ("ridge", "gaussian-process")
VERDICT_WORDS = {
    "better": "better than",
    "worse": "worse than",
    "not significantly different": "not significantly different from",
    None: "not compared with",
}


def ranking_sentence(
    means: Mapping[str, RankingMetrics],
    comparison: Mapping[str, MetricDifferences],
    subject: str = "",
    trained: int | None = None,
    proxy: str = "proxy",
) -> str:
    """Say how well a proxy ranks, and how that compares with size and the best regression."""
    own = means[proxy]
    if own.kendall is None:
        return f"{subject}Its scores have no Kendall tau: they are all equal or missing."
    low, high = own.interval
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    known = [name for name in REGRESSIONS if name in comparison and _tau(means, name) is not None]
    best = sorted(known, key=lambda name: -(_tau(means, name) or 0.0))[:1]
    clauses = []
    for name in ("params", *best):
        tau = _tau(means, name)
        if tau is not None and name in comparison:
            verdict = VERDICT_WORDS[comparison[name].kendall.verdict]
            count = f" on {trained} trained networks" if trained and name in REGRESSIONS else ""
            clauses.append(f"{verdict} {RIVALS[name]}{count} ({tau:.2f})")
    compared = f": {', '.join(clauses)}" if clauses else ""
    sentence = f"Ranks unseen networks with Kendall tau {own.kendall:.2f}{interval}{compared}."
    return f"{subject}{_warning(own.kendall, means, comparison)}{sentence}"


def _tau(means: Mapping[str, RankingMetrics], name: str) -> float | None:
    return means[name].kendall if name in means else None


def _warning(
    tau: float, means: Mapping[str, RankingMetrics], comparison: Mapping[str, MetricDifferences]
) -> str:
    """Say first that counting parameters ranks better, if it does."""
    size = _tau(means, "params")
    if size is None or tau >= size or "params" not in comparison:
        return ""
    worse = comparison["params"].kendall.verdict == "worse"
    return f"Counting parameters ranks better{'' if worse else ', though not significantly'}. "


def fold_headlines(fold: EvolutionFold) -> list[str]:
    """Return the first sentences on a fold's formula, for each space where it was measured."""
    several = len(fold.spaces) > 1
    return [
        quality_headline(quality, f"{space}: " if several else "")
        for space, quality in fold.spaces.items()
    ]


def quality_headline(quality: RankingQuality, subject: str = "") -> str:
    """Return the first sentences on how well a formula ranks on one space."""
    test = quality.size["test"]
    means = {name: own.test for name, own in quality.means.items()}
    trained = quality.size["train"].networks if "train" in quality.size else None
    sentence = ranking_sentence(means, quality.comparison, subject, trained)
    same = 1.0 - min(1.0, quality.seed_share or 0.0)
    size = "yes" if test.mostly_size else "no"
    stable = f"Mostly size: {size}. Same score with another seed: {100 * same:.0f} %."
    few = few_labels(means["proxy"].interval, trained, test.networks)
    return f"{too_few(test.networks)}{sentence} {stable}{few}"


def few_labels(interval: Interval, trained: int | None, tested: int) -> str:
    """Say what the interval of a proxy with few labels allows, and what would halve it.

    The width of an interval falls with the square root of the number of test networks.
    """
    low, high = interval
    if trained is None or trained >= ENOUGH_LABELS or low is None or high is None:
        return ""
    rule = "includes 0, so this test doesn't show that the proxy ranks better than chance"
    if tested < FEWEST:
        rule = f"is based on fewer than {FEWEST} test networks and says next to nothing"
    elif low > 0:
        rule = "is above 0, so the proxy ranks better than chance"
    elif high < 0:
        rule = "is below 0, so the proxy ranks worse than chance"
    return (
        f" The interval, {high - low:.2f} wide, {rule}. Half the width takes four times as many "
        f"test networks: {4 * tested} instead of {tested}. With the same --train, that means "
        f"training {3 * (trained + tested)} more networks."
    )


def too_few(networks: int) -> str:
    """Say that the test networks are too few to judge a proxy, if they are, and what to do."""
    if networks >= FEWEST:
        return ""
    return (
        f"Too few to judge: {networks} test networks, but at least {FEWEST} are needed; choose a "
        "benchmark with more networks, or a smaller --train. "
    )


def prior_tables(tables: Sequence[str], space: str) -> str:
    """List the tables of a prior, and say if none is of the space."""
    known = {table.rpartition(": ")[2] for table in tables}
    other = "" if space in known else f"; none of them is of {space}"
    return f"{', '.join(tables)}{other}"


def rank_headline(summary: RankSummary) -> str:
    """Return the first sentences on the best proxy of a ranking."""
    taus = {name: own.kendall for name, own in summary.means.items() if own.kendall is not None}
    if not taus:
        return "No proxy has a Kendall tau."
    best = max(taus, key=lambda name: taus[name])
    means = {**summary.baseline_means, best: summary.means[best]}
    sentence = ranking_sentence(means, summary.comparison[best], proxy=best)
    size = "yes" if best in summary.size and summary.size[best].mostly_size else "no"
    few = too_few(summary.networks).replace(" test networks", " networks")
    few = few.replace(", or a smaller --train", "")
    told = sentence.replace("Ranks unseen networks", f"{best}, the best, ranks the networks")
    return f"{few}{told} Mostly size: {size}."


def search_headline(
    best: int, params: int, candidates: int, spearman: float | None, is_largest: bool
) -> str:
    """Return the first sentences on what a search found."""
    size = "no correlation" if spearman is None else f"Spearman {spearman:.2f}"
    simply = " It is simply the largest." if is_largest else ""
    return (
        f"The best of {candidates} candidates is candidate {best} with {format_with_unit(params)} "
        f"parameters.{simply} Score and parameters: {size}."
    )
