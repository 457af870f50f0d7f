"""`autoprox bench`: the tables of architectures with true scores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoprox.cli.common import INTERRUPTED
from autoprox.cli.options import DataDir, Debug, Json

if TYPE_CHECKING:
    from autoprox.training.recipes import TrainingRecipe

bench = typer.Typer(
    name="bench",
    help="The benchmarks: list them, show one, download its files, build one of your own.",
    epilog="Example: autoprox bench list",
)

Name = Annotated[str, typer.Argument(help="A benchmark's name, as `autoprox bench list` has it.")]


@bench.command("list", epilog="Example: autoprox bench list")
def list_(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """List the benchmarks, and whether their files are there."""
    from autoprox.benchmarks import list_benchmarks
    from autoprox.report import benchmarks as tables
    from autoprox.report.console import show, show_json

    found = list_benchmarks(_path(data_dir))
    if json:
        show_json(found)
    else:
        show(tables.benchmark_table(found))


@bench.command(epilog="Example: autoprox bench info vit-bench-101")
def info(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Show a benchmark's datasets, labels, licence, source and files."""
    from autoprox.benchmarks import benchmark_info
    from autoprox.report import benchmarks as tables
    from autoprox.report.console import show, show_json

    found = benchmark_info(name, _path(data_dir))
    if json:
        show_json(found)
    else:
        show(*tables.benchmark_details(found))


@bench.command(epilog="Example: autoprox bench fetch vit-bench-101")
def fetch(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Download a benchmark's files from their public source, checked by their sha256."""
    from autoprox.benchmarks import fetch_benchmark
    from autoprox.report import benchmarks as tables
    from autoprox.report.console import show, show_json

    done = fetch_benchmark(name, _path(data_dir))
    if json:
        show_json(done)
    elif done:
        show(tables.file_table(done))
    else:
        show(f"{name} comes with autoprox: nothing needs to be fetched")


@bench.command(
    epilog="Example: autoprox bench build --space autoformer-nano --images photos --out photos.json"
)
def build(
    space: Annotated[str, typer.Option(help="Search space to take architectures of.")],
    out: Annotated[
        Path,
        typer.Option(help="Table to write; results gather in FILE.parts.", metavar="FILE"),
    ],
    images: Annotated[
        list[Path] | None,
        typer.Option(
            help="Dataset to train on: a folder with one for each class, .npz, IDX or CIFAR "
            "binary files. Repeat it for more datasets.",
            metavar="PATH",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="Dataset to train language models on: a text file, of which a token is a byte. "
            "Repeat it for more datasets.",
            metavar="FILE",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="Architectures to train.")] = 64,
    seeds: Annotated[int, typer.Option(help="Trainings of each on each dataset.")] = 2,
    epochs: Annotated[int, typer.Option(help="Passes over the images or the text.")] = 8,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Distil from the networks of this function, called with dataset and classes.",
            metavar="MODULE:FUNCTION",
        ),
    ] = None,
    mirror: Annotated[
        list[str] | None,
        typer.Option(
            help="Dataset whose images may be mirrored. Repeat it for more.",
            metavar="DATASET",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that train, with one thread each.")] = 2,
    seed: Annotated[int, typer.Option(help="Fixes which architectures are taken.")] = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Build a benchmark of your own: train architectures of a space on your images or texts.

    The score is the accuracy on images that are held out, or the perplexity for a
    byte of a text's last fifth. A stopped build goes on when it is started again;
    nothing is trained twice.
    """
    from autoprox.report import benchmarks as tables
    from autoprox.report.console import show, show_json
    from autoprox.report.progress import progress_on
    from autoprox.training.table import build_table

    paths, recipe = _dataset_options(images, text, epochs, teacher, mirror)
    given = {"samples": samples, "seeds": seeds, "workers": workers, "seed": seed}
    try:
        with progress_on() as progress:
            table = build_table(space, paths, out, recipe=recipe, progress=progress, **given)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    details = tables.build_details(table, out)
    if json:
        show_json(details)
    else:
        show(*tables.build_report(details))


def _dataset_options(
    images: list[Path] | None,
    text: list[Path] | None,
    epochs: int,
    teacher: str | None,
    mirror: list[str] | None,
) -> tuple[list[Path], TrainingRecipe[Any]]:
    """The datasets, and how to train on them."""
    from autoprox.training.images import ImageRecipe
    from autoprox.training.recipes import TrainingError
    from autoprox.training.texts import TextRecipe

    if images and not text:
        recipe = ImageRecipe(epochs=epochs, teacher=teacher, mirror=tuple(mirror or ()))
        return images, recipe
    if not text or images:
        got = "both" if images else "neither"
        raise TrainingError(f"either --images or --text must be given, but got {got}")
    for option, value in (("--teacher", teacher), ("--mirror", mirror)):
        if value:
            raise TrainingError(f"{option} must be given with --images only, but got --text")
    return text, TextRecipe(epochs=epochs)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
