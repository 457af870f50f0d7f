"""The reports of searches: of architectures, and of a known proxy."""

from autoprox.commands.rediscover import RediscoverSummary
from autoprox.commands.search import PickEvaluation, SearchSummary
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.report.terminal.headlines import search_headline
from autoprox.report.terminal.layout import (
    Part,
    aligned,
    found_elsewhere,
    new_table,
    next_command,
    number,
    paragraph,
    weights_differ,
)
from autoprox.report.terminal.metric_tables import comparison_parts, near_size_parts


def search_report(summary: SearchSummary) -> list[Part]:
    """Show the best architecture, the sizes and scores of the best ones, and the counts."""
    headings = "params", "flops", "score", *(["value"] if summary.evaluator else [])
    table = new_table("candidate", *headings)
    table.columns[0].justify = "right"
    for own in summary.top:
        numbers = (own.score, own.value) if summary.evaluator else (own.score,)
        shown = ("-" if n is None else f"{n:.6g}" for n in numbers)
        table.add_row(
            str(own.candidate), format_with_unit(own.params), format_with_unit(own.flops), *shown
        )
    failed = f"{sum(summary.failed.values())} failed"
    if summary.failed:
        reasons = ", ".join(f"{count} {reason}" for reason, count in summary.failed.items())
        failed += f" ({reasons})"
    best = {
        name: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in summary.best.arch.items()
    }
    evaluated = f", {summary.evaluated} evaluated" if summary.evaluator else ""
    candidates = f"Candidates: {summary.evaluations}{evaluated}, {failed}"
    headline = search_headline(
        *(summary.best.candidate, summary.best.params, summary.evaluations),
        *(summary.size.spearman, summary.size.pick_is_largest),
    )
    return [
        paragraph(headline),
        next_command("export", "arch", summary.run, "--out", "network"),
        aligned(best),
        table,
        *(_evaluator_parts(summary.evaluator_check) if summary.evaluator_check else []),
        *(
            [found_elsewhere("The proxy", summary.found_on)]
            if summary.found_on and summary.space not in summary.found_on.split(", ")
            else []
        ),
        paragraph(_size_check(summary)),
        paragraph(f"{candidates}; {summary.weights} weights; {summary.seconds:.0f} s"),
        *_weights_parts(summary),
        f"Run: {summary.run}",
    ]


def _weights_parts(summary: SearchSummary) -> list[Part]:
    """Say if the proxy was evolved with other weights."""
    if summary.evolved_with in (None, summary.weights):
        return []
    return [weights_differ("The proxy", str(summary.evolved_with), summary.weights)]


def _size_check(summary: SearchSummary) -> str:
    size, largest = summary.size, format_with_unit(summary.size.largest.params)
    lines = [
        f"Spearman of score and parameters: {number(size.spearman)} ({size.candidates} candidates)."
    ]
    if size.pick_is_largest:
        lines.append("The pick is simply the largest.")
    if size.near_largest:
        near = f"{size.near_largest} are within 2 % of the largest, {largest}."
        lines.append(f"Of the best {size.top}, {near}")
    if size.pick_is_largest and summary.objective == "score":
        lines.append("--objective size-adjusted and --match-size compare beyond size.")
    return " ".join(lines)


def _evaluator_parts(check: PickEvaluation) -> list[Part]:
    """Show the values of the pick and of the largest, and how well the scores rank by value."""
    values = "\n".join(
        f"{name} (candidate {own.candidate}): value {own.value:.6g}, regret {own.regret:.3g}"
        for name, own in (("The proxy's pick", check.pick), ("The largest", check.largest))
        if own
    )
    if not check.means:
        return [values]
    return [
        values,
        *near_size_parts(check.means, check.networks, check.pairs),
        *comparison_parts(check.comparison),
    ]


def rediscovery_report(summary: RediscoverSummary) -> list[Part]:
    """Show the target, the formula that was found, the evidence, and the counts."""
    source = summary.target.source
    if summary.evidence:
        label, outcome = "found", f"Rediscovered {source}: {summary.evidence.statement}."
    else:
        label, outcome = (
            "best ",
            (
                f"{source} was not rediscovered. The term that correlates best with its scores "
                f"(Pearson's r {summary.correlation:.6f}):"
            ),
        )
    counts = (
        f"Formulas scored: {summary.evaluations} in {summary.rounds} rounds; "
        f"{summary.seconds:.0f} s"
    )
    return [
        paragraph(outcome),
        summary.formula,
        f"{label}   {summary.expression}\ntarget  {summary.target.expression}",
        f"{counts}\nRun: {summary.run}",
    ]
