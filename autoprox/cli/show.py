"""The command `autoprox show`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_options import Debug, Json


def show(
    proxies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROXY]...",
            help="A run, one of its formulas (RUN:N), a proxy file, a published name or an "
            "expression. Several are shown side by side; runs may be of any kind then.",
            show_default=False,
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Of a run, all formulas by number.")] = False,
    operations: Annotated[
        bool, typer.Option("--operations", help="Instead of a proxy, the language's operations.")
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Only the formula, in LaTeX.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Only the tree, with types.")] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="Only this format: text, pretty, latex, tree or a plug-in's."
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a proxy: its formula, what it reads, where it was found and how well it ranks."""
    if (not proxies) != operations:
        raise typer.BadParameter("either a proxy or --operations must be given")
    if len(proxies or ()) > 1 and (latex or tree or format_ is not None or all_):
        raise typer.BadParameter("several proxies have no other format than --json")
    if operations and (latex or tree or format_ is not None):
        raise typer.BadParameter("--operations has no other format than --json")
    if all_ and (operations or latex or tree or format_ is not None):
        raise typer.BadParameter("--all has no other format than --json")
    if latex + tree + (format_ is not None) + json > 1:
        raise typer.BadParameter("at most one of --latex, --tree, --format and --json can be given")
    if not proxies:
        _show_operations(json)
    elif all_:
        _show_formulas(proxies[0], json)
    elif len(proxies) > 1:
        _show_several(proxies, json)
    else:
        _show_one(proxies[0], "latex" if latex else "tree" if tree else format_, json)


def _show_one(proxy: str, format_: str | None, json: bool) -> None:
    from autoprox.export import EXPORTERS  # with torch, which takes seconds to import
    from autoprox.report.terminal import layout
    from autoprox.report.terminal.proxy_report import proxy_details, proxy_report
    from autoprox.runs.folder import as_written
    from autoprox.zoo.proxy_loading import resolve_proxy

    loaded = resolve_proxy(proxy)
    if format_ is not None:
        print(EXPORTERS.find(format_)(loaded.tree))
    elif json:
        layout.show_json(proxy_details(loaded).model_dump(mode="json"))
    else:
        with as_written(proxy):
            parts = proxy_report(loaded)
        layout.show(*parts)


def _show_several(proxies: list[str], json: bool) -> None:
    from autoprox.report.terminal import layout  # with torch, as above
    from autoprox.report.terminal.proxy_report import proxy_glance
    from autoprox.report.terminal.run_lists import side_by_side

    rows = [proxy_glance(proxy) for proxy in proxies]
    if json:
        layout.show_json([row.model_dump(mode="json", exclude_unset=True) for row in rows])
    else:
        layout.show(*side_by_side(rows))


def _show_formulas(run: str, json: bool) -> None:
    from autoprox.report.terminal import layout  # with torch, as above
    from autoprox.report.terminal.run_lists import formulas_report
    from autoprox.zoo.proxy_loading import run_formulas

    rows = run_formulas(Path(run))
    if json:
        layout.show_json([row.model_dump() for row in rows])
    else:
        layout.show(*formulas_report(rows, run))


def _show_operations(json: bool) -> None:
    from autoprox.report.terminal import layout  # with torch, as above
    from autoprox.report.terminal.operations import operation_details, operations_report

    if json:
        layout.show_json([row.model_dump() for row in operation_details()])
    else:
        layout.show(*operations_report())
