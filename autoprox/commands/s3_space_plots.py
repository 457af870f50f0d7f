"""Plots of a search of the search space, as in S3's figures 2 and 6; they need matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from autoprox.files.atomic_writes import atomic_file


def plot_option_evolution(rounds: Sequence[Mapping[str, Sequence[float]]], path: Path) -> None:
    """Plot the options over the rounds: a row for each dimension, a column for each stage."""
    names = list(rounds[0])
    dimensions = list(dict.fromkeys(name.rpartition("_")[0] for name in names))
    stages = list(dict.fromkeys(name.rpartition("_")[2] for name in names))
    figure = Figure(figsize=(2.2 * len(stages), 1.7 * len(dimensions)), layout="constrained")
    grid = figure.subplots(len(dimensions), len(stages), sharex=True, sharey="row", squeeze=False)
    numbers = range(len(rounds))
    for row, dimension in zip(grid, dimensions, strict=True):
        row[0].set_ylabel(dimension)
        for axes, stage in zip(row, stages, strict=True):
            own = [sorted(options[f"{dimension}_{stage}"]) for options in rounds]
            axes.fill_between(numbers, [o[0] for o in own], [o[-1] for o in own], alpha=0.2)
            points = [(number, option) for number in numbers for option in own[number]]
            axes.scatter(*zip(*points, strict=True), s=12)
            axes.set_xticks(numbers)
    for axes, stage in zip(grid[0], stages, strict=True):
        axes.set_title(f"stage {stage}")
    figure.supxlabel("round")
    _save(figure, path)


def plot_error_distributions(rounds: Sequence[Sequence[float]], path: Path) -> None:
    """Plot the empirical distribution of the errors of each space's architectures."""
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for number, errors in enumerate(rounds):
        axes.ecdf(errors, label=f"space {number}")
    axes.set_xlabel("error (%)")
    axes.set_ylabel("share of the architectures")
    axes.legend()
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=150)
