"""`autoprox supernet`: networks that contain all networks of a space."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.command_factory import add_command
from autoprox.cli.common_flags import Debug, Json
from autoprox.configurations.supernets import SupernetEvalConfig, SupernetTrainConfig

supernet = typer.Typer(
    name="supernet",
    help="Supernets: train one, evaluate its subnets, extract one.",
    epilog="Example: autoprox supernet train --space autoformer-nano --images photos",
)
add_command(supernet, "train", SupernetTrainConfig)
add_command(supernet, "eval", SupernetEvalConfig)


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
    from autoprox.report.terminal.layout import aligned, show_result

    found = extract_subnet(run, arch, out).model_dump(mode="json")
    show_result(json, found, lambda: [aligned({name: str(found[name]) for name in found})])
