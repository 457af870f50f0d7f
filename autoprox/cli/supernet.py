"""`autoprox supernet`: one network whose parts are all networks of a space."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.command_factory import command
from autoprox.cli.common_options import Debug, Json
from autoprox.configurations.supernets import SupernetEvalConfig, SupernetTrainConfig

supernet = typer.Typer(
    name="supernet",
    help="Supernets: train one, evaluate its subnets, take one out.",
    epilog="Example: autoprox supernet train --space autoformer-nano --images photos",
)

train = command(
    SupernetTrainConfig,
    """Train a supernet, whose subnets inherit its weights.

    A step trains the subnets that the sampler draws. Weights are kept after every
    epoch; with --resume, a stopped training goes on.
    """,
)
supernet.command(
    "train",
    epilog="Example: autoprox supernet train --space autoformer-nano --images photos",
)(train)

evaluate = command(
    SupernetEvalConfig,
    """Evaluate random subnets with the weights that they inherit.

    The table is a benchmark, for `evolve --benchmark` and `rank`.
    """,
)
supernet.command(
    "eval", epilog="Example: autoprox supernet eval runs/20260102T030405Z-mine --samples 1000"
)(evaluate)


@supernet.command(
    epilog="Example: autoprox supernet extract runs/20260102T030405Z-mine --arch best.json "
    "--out best.safetensors"
)
def extract(
    run: Annotated[Path, typer.Argument(help="The run of a training.", show_default=False)],
    arch: Annotated[
        Path,
        typer.Option(help="JSON with space and choices.", metavar="FILE", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Weights to write, safetensors.", metavar="FILE", show_default=False),
    ],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a subnet's weights, as those of a plain network of the space."""
    from autoprox.commands.supernet import extract_subnet  # with torch, which takes seconds
    from autoprox.report.terminal import layout

    found = extract_subnet(run, arch, out).model_dump(mode="json")
    if json:
        layout.show_json(found)
    else:
        layout.show(layout.aligned({name: str(value) for name, value in found.items()}))
