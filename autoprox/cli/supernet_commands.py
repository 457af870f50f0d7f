"""`autoprox supernet`: networks that contain all networks of a space."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.command_factory import add_command
from autoprox.cli.common_flags import Debug, Json
from autoprox.cli.help_layout import HelpfulCommand, HelpfulGroup, examples
from autoprox.configurations.supernets import SupernetEvalConfig, SupernetTrainConfig

EXTRACT_EXAMPLES = (
    "supernet extract runs/20260102T030405Z-mine --arch best.json --out best.safetensors",
    "supernet extract runs/20260102T030405Z-mine --arch top.json --out top.safetensors",
    "supernet extract runs/20260102T030405Z-mine --arch preferred.json --out a.safetensors --json",
)
supernet = typer.Typer(
    name="supernet",
    help="Supernets: train one, evaluate its subnets, extract one.",
    cls=HelpfulGroup,
    epilog=examples(
        (
            SupernetTrainConfig.examples[0],
            SupernetEvalConfig.examples[0],
            EXTRACT_EXAMPLES[0],
        )
    ),
)
add_command(supernet, "train", SupernetTrainConfig)
add_command(supernet, "eval", SupernetEvalConfig)


@supernet.command(cls=HelpfulCommand, epilog=examples(EXTRACT_EXAMPLES))
def extract(
    run: Annotated[
        Path, typer.Argument(help="The run that trained the supernet.", show_default=False)
    ],
    arch: Annotated[
        Path,
        typer.Option(
            help="A JSON file; of several architectures, such as top.json, the first.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Weights to write, safetensors.", metavar="FILE", show_default=False),
    ],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a subnet's weights as those of a plain network of the space."""
    from autoprox.commands.supernet import extract_subnet  # with torch, which takes seconds
    from autoprox.report.terminal.layout import aligned, show_result

    found = extract_subnet(run, arch, out).model_dump(mode="json")
    show_result(json, found, lambda: [aligned({name: str(found[name]) for name in found})])
