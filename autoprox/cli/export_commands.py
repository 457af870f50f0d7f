"""`autoprox export`: an architecture for training, a proxy for other code."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_flags import Debug, Json, optional, path_option
from autoprox.cli.help_layout import HelpfulCommand, HelpfulGroup, examples, offered

ARCH_EXAMPLES = (
    "export arch runs/20260102T030405Z-mine --format torch --out my-network",
    "export arch top.json --space pit --format timm",
    "export arch best.json --format json",
)
PROXY_EXAMPLES = (
    "export proxy snip --format python --out snip.py",
    "export proxy runs/20260102T030405Z-mine:2 --format latex",
    "export proxy dss++ --format sympy",
)
export = typer.Typer(
    name="export",
    help="Export an architecture for training, or a proxy for other code.",
    cls=HelpfulGroup,
    epilog=examples(ARCH_EXAMPLES[:1] + PROXY_EXAMPLES[:2]),
)


@export.command(cls=HelpfulCommand, epilog=examples(ARCH_EXAMPLES))
def arch(
    architecture: Annotated[
        str,
        typer.Argument(
            help="A run of search, s3 or prenas, its Nth best (RUN:N), a JSON file, or JSON.",
            show_default=False,
        ),
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="Format of the network; a plug-in may add others.",
            **offered(("torch", "timm", "transformers", "json")),
        ),
    ] = "torch",
    space: Annotated[str | None, optional("Search space.", "that of the JSON")] = None,
    out: Annotated[
        Path | None,
        path_option(
            "Folder to write, which must be new; with json, a file.", "named like the architecture"
        ),
    ] = None,
    classes: Annotated[
        int | None,
        optional(
            "Classes of the classifier, for images.", "those of the run, or the space's", min=1
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write an architecture's network, with a script that trains it."""
    from autoprox.commands.export_network import export_architecture, read_architecture
    from autoprox.report.terminal.layout import show_json, show_result

    exported = read_architecture(architecture, space, classes)
    found = export_architecture(exported.architecture, format_, out, exported.classes)
    if found.out is None and not json:
        show_json(found.architecture.model_dump(mode="json"))
    else:
        show_result(json, found, lambda: [f"Written to {found.out}: {', '.join(found.files)}"])


@export.command(cls=HelpfulCommand, epilog=examples(PROXY_EXAMPLES))
def proxy(
    proxy: Annotated[
        str,
        typer.Argument(
            help="A run, a proxy file, a published name or an expression.", show_default=False
        ),
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="Format of the proxy; python is a file that needs only torch. A plug-in may "
            "add others.",
            **offered(("python", "latex", "sympy", "json", "text", "pretty", "tree", "mathml")),
        ),
    ] = "python",
    out: Annotated[Path | None, path_option("File to write.", "printed")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a proxy as a function that needs only torch, or as a formula."""
    from autoprox.commands.export_network import ExportedProxy
    from autoprox.export import EXPORTERS  # with torch, which takes seconds to import
    from autoprox.files.atomic_writes import write_text
    from autoprox.report.terminal.layout import show_result
    from autoprox.zoo.proxy_loading import resolve_proxy

    tree = resolve_proxy(proxy).tree
    text = EXPORTERS.find(format_)(tree)
    if out is not None:
        write_text(out, f"{text.rstrip()}\n")
    file = None if out is None else str(out)
    if file is None and not json:
        print(text.rstrip())
    else:
        found = ExportedProxy(proxy=str(tree), format=format_, out=file, text=text)
        show_result(json, found, lambda: [f"Written to {file}"])
