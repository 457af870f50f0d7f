"""The command `autoprox show`."""

from typing import Annotated

import typer

from autoprox.cli.options import Debug, Json


def show(
    proxy: Annotated[
        str | None,
        typer.Argument(
            help="A run, a proxy file, a published name or an expression.", show_default=False
        ),
    ] = None,
    operations: Annotated[
        bool, typer.Option("--operations", help="Instead of a proxy, the language's operations.")
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Only the formula, in LaTeX.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Only the tree, with types.")] = False,
    form: Annotated[
        str, typer.Option(help="Only this form: text, pretty, latex, tree or a plug-in's.")
    ] = "",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a proxy: its formula, what it reads, where it was found and what it is worth."""
    if (proxy is None) != operations:
        raise typer.BadParameter("either a proxy or --operations must be given")
    if operations and (latex or tree or form):
        raise typer.BadParameter("--operations has no other form than --json")
    if latex + tree + bool(form) + json > 1:
        raise typer.BadParameter("at most one of --latex, --tree, --form and --json can be given")
    from autoprox.export import EXPORTERS  # with torch, which takes seconds to import
    from autoprox.report import layout
    from autoprox.report.proxy import proxy_details, proxy_report
    from autoprox.zoo.loading import load

    if proxy is None:
        _show_operations(json)
        return
    loaded = load(proxy)
    if form := "latex" if latex else "tree" if tree else form:
        print(EXPORTERS.find(form)(loaded.tree))
    elif json:
        layout.show_json(proxy_details(loaded))
    else:
        layout.show(*proxy_report(loaded))


def _show_operations(json: bool) -> None:
    from autoprox.report import layout  # with torch, as above
    from autoprox.report.operations import operation_details, operations_report

    if json:
        layout.show_json(operation_details())
    else:
        layout.show(*operations_report())
