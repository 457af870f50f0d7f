"""The reports of supernets, of PreNAS and of S3, the search of the search space."""

from collections.abc import Iterable

from autoprox.commands.prenas import PrenasSummary
from autoprox.commands.s3_space_search import S3Summary
from autoprox.commands.supernet import (
    SupernetEvalSummary,
    SupernetTrainSummary,
    TrainedSupernet,
)
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.report.terminal.layout import Part, aligned, new_table, next_command


def supernet_train_report(summary: SupernetTrainSummary) -> list[Part]:
    """Show the accuracies that subnets inherit, and where the weights are."""
    return _trained_parts(summary, summary.run)


def _trained_parts(trained: TrainedSupernet, run: str) -> list[Part]:
    table = new_table("subnet", "params", "flops", "accuracy")
    table.columns[0].justify = "right"
    for number, own in enumerate(trained.subnets, start=1):
        table.add_row(
            str(number),
            format_with_unit(own.params),
            format_with_unit(own.flops),
            f"{own.accuracy:.2f}",
        )
    counts = (
        f"{trained.space} on {trained.dataset}, {trained.sampler}; epochs: {trained.epochs} of "
        f"{trained.images_per_epoch} of {trained.images} images, loss {trained.loss:.4f}; "
        f"{trained.seconds:.0f} s"
    )
    where = f"{counts}\nWeights: {trained.weights}"
    return [table, where, next_command("supernet", "eval", run), f"Run: {run}"]


def supernet_eval_report(summary: SupernetEvalSummary) -> list[Part]:
    """Show the range of the accuracies, and the command that uses them."""
    facts = {
        "subnets": f"{summary.architectures} of {summary.space}",
        "accuracy": f"{summary.lowest:.2f} to {summary.median:.2f} to {summary.highest:.2f} on "
        f"{summary.held_out} images",
        "table": summary.file,
    }
    following = next_command("evolve", "--benchmark", summary.file)
    return [aligned(facts), following, f"Run: {summary.run}"]


def prenas_report(summary: PrenasSummary) -> list[Part]:
    """Show the preferred architectures, and the supernet if it was trained on them."""
    table = new_table("below", "params", "flops", "SNIP", "normalised")
    table.add_column("choices")
    for number, own in enumerate(summary.preferred, start=1):
        below = [row.size for row in summary.sizes if number in row.preferred] or [own.size]
        choices = (
            f"{name} {sum(value):g}" if isinstance(value, list) else f"{name} {value}"
            for name, value in own.arch.items()
        )
        table.add_row(
            " to ".join(map(format_with_unit, sorted({min(below), max(below)}))),
            *(format_with_unit(own.params), format_with_unit(own.flops)),
            *(f"{own.snip:.5g}", f"{own.normalised:.5g}", ", ".join(choices)),
        )
    chosen: list[Part] = [table, f"Preferred: {summary.file}"]
    if summary.training is None:
        return [*chosen, f"Run: {summary.run}"]
    return [*chosen, *_trained_parts(summary.training, summary.run)]


def s3_report(summary: S3Summary) -> list[Part]:
    """Show the errors of each space, and the best network of the last."""
    best, plots = summary.best, summary.plots
    table = new_table("space", "E-T error", "expected", "top tier", "of")
    dropped = []
    for number, own in enumerate(summary.rounds):
        errors = (f"{error:.2f}" for error in (own.error, own.expected, own.top_tier))
        table.add_row(str(number), *errors, str(own.architectures))
        dropped += [
            f"Dropped before space {number}, as no network has them: {name} {_numbers(options)}"
            for name, options in own.dropped.items()
        ]
    if summary.ended:
        dropped.append(f"No round {len(summary.rounds)}: {summary.ended}")
    stages: dict[str, list[str]] = {}
    for name, value in best.arch.choices.items():
        dimension, _, stage = name.rpartition("_")
        numbers = _numbers(value if isinstance(value, list) else [value])
        stages.setdefault(f"stage {stage}", []).append(f"{dimension} {numbers}")
    facts = {
        "best": f"{format_with_unit(best.params)} parameters, "
        f"{format_with_unit(best.flops)} operations, "
        f"accuracy {best.accuracy:.2f} with inherited weights",
        **{stage: "; ".join(own) for stage, own in sorted(stages.items())},
    }
    shown = plots.reason or f"Plots: {plots.options}\n       {plots.errors}"
    counts = f"Evaluated in the search: {best.evaluated}; {summary.seconds:.0f} s"
    return [
        table,
        *(["\n".join(dropped)] if dropped else []),
        aligned(facts),
        f"{counts}\n{shown}\nRun: {summary.run}",
    ]


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
