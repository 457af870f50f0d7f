"""The report of a benchmark that was built."""

from autoprox.commands.build_benchmark import BuildSummary
from autoprox.files.shell_command import command_line
from autoprox.report.terminal.layout import Part, new_table, number

SATURATED = 0.05  # share of the pairs of architectures with the same score


def build_report(summary: BuildSummary) -> list[Part]:
    """Show the range and the reliability of the scores, the failures, and the next command."""
    table = new_table(summary.measure)
    for heading in ("lowest", "median", "highest", "tau between seeds", "reliability"):
        table.add_column(heading, justify="right")
    for dataset, own in summary.datasets.items():
        scores = (f"{score:.2f}" for score in (own.lowest, own.median, own.highest))
        table.add_row(dataset, *scores, number(own.noise_ceiling), number(own.reliability))
    counts = (
        f"{summary.architectures} architectures of {summary.space}, seeds: {summary.seeds}; "
        f"{summary.core_hours:g} core hours; trainings failed: {len(summary.failures)}"
    )
    left_out = [f"left out: {f.dataset}, seed {f.seed}: {f.failure}" for f in summary.failures]
    saturated = [
        f"Warning: the scores of {dataset} saturate: {own.tied:.0%} of the pairs of "
        "architectures\nhave the same one. Take harder data, fewer --epochs or smaller --sizes."
        for dataset, own in summary.datasets.items()
        if own.tied > SATURATED
    ]
    following = command_line("evolve", "--benchmark", summary.file)
    return [
        table,
        "\n".join([counts, *left_out]),
        *saturated,
        f"Table: {summary.file}\nNext: {following}",
    ]
