"""Plots of spaces that evolve, as in S3's figures 2 and 6; matplotlib must be installed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from autoprox.files.atomic_writes import atomic_file

Options = Mapping[str, Sequence[float]]


def plot_options(rounds: Sequence[Options], path: Path) -> None:
    """The options of each dimension, a row, in each stage, a column, over the rounds."""
    names = list(rounds[0])
    dimensions = list(dict.fromkeys(name.rpartition("_")[0] for name in names))
    stages = list(dict.fromkeys(name.rpartition("_")[2] for name in names))
    figure = Figure(figsize=(2.2 * len(stages), 1.7 * len(dimensions)), layout="constrained")
    grid = figure.subplots(len(dimensions), len(stages), sharex=True, sharey="row", squeeze=False)
    for row, dimension in zip(grid, dimensions, strict=True):
        row[0].set_ylabel(dimension)
        for axes, stage in zip(row, stages, strict=True):
            own = [sorted(options[f"{dimension}_{stage}"]) for options in rounds]
            places = range(len(rounds))
            axes.fill_between(places, [o[0] for o in own], [o[-1] for o in own], alpha=0.2)
            points = [(place, option) for place in places for option in own[place]]
            axes.scatter(*zip(*points, strict=True), s=12)
            axes.set_xticks(places)
    for axes, stage in zip(grid[0], stages, strict=True):
        axes.set_title(f"stage {stage}")
    figure.supxlabel("round")
    _save(figure, path)


def plot_errors(rounds: Sequence[Sequence[float]], path: Path) -> None:
    """What part of each space's architectures has an error below x: its empirical distribution."""
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for number, errors in enumerate(rounds):
        axes.ecdf(errors, label=f"space {number}")
    axes.set_xlabel("error, %")
    axes.set_ylabel("part of the architectures")
    axes.legend()
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=150)
