"""The commands that show what there is: `autoprox show`, `runs` and `report`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_flags import Debug, Json, path, path_option
from autoprox.cli.help_layout import offered
from autoprox.files.json_documents import JSONDocument

SHOW_EXAMPLES = (
    "show snip",
    "show runs/20260102T030405Z-mine --format latex",
    "show runs/20260102T030405Z-mine snip dss++",
)
RUNS_EXAMPLES = ("runs", "runs --json", "runs elsewhere/runs")
REPORT_EXAMPLES = (
    "report runs/20260102T030405Z-mine",
    "report runs/20260102T030405Z-a runs/20260102T040506Z-b --out both.html",
    "report runs/20260102T030405Z-mine --format md",
)

# Torch takes seconds to import: what needs it is imported when a command runs.


class WrittenReport(JSONDocument):
    """A page of runs that was written."""

    file: str
    format: str
    runs: list[str]


def show_proxies(
    proxies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROXY]...",
            help="A run, one of its formulas (RUN:N), a proxy file, a published name or an "
            "expression. Several are shown side by side, in which case runs may be of any kind.",
            show_default=False,
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="List all formulas of a run by number.")
    ] = False,
    operations: Annotated[
        bool,
        typer.Option("--operations", help="Show the language's operations instead of a proxy."),
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Show only the formula, in LaTeX.")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Show only the tree, with types.")] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Show the formula alone, in this format; a plug-in may add others.",
            **offered(("text", "pretty", "latex", "tree")),
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a proxy: its formula, what it reads, where it was found and how well it ranks."""
    has_format = latex or tree or format_ is not None
    if (not proxies) != operations:
        raise typer.BadParameter("either a proxy or --operations must be given")
    if len(proxies or ()) > 1 and (has_format or all_):
        raise typer.BadParameter("several proxies have no other format than --json")
    if operations and has_format:
        raise typer.BadParameter("--operations has no other format than --json")
    if all_ and (operations or has_format):
        raise typer.BadParameter("--all has no other format than --json")
    if latex + tree + (format_ is not None) + json > 1:
        raise typer.BadParameter("at most one of --latex, --tree, --format and --json can be given")
    from autoprox.export import EXPORTERS
    from autoprox.report.terminal.layout import show, show_json, show_result
    from autoprox.report.terminal.operations_report import operation_details, operations_report
    from autoprox.report.terminal.proxy_report import proxy_details, proxy_glance, proxy_report
    from autoprox.report.terminal.run_lists import formulas_report, proxy_comparison_table
    from autoprox.runs.folder import as_written
    from autoprox.zoo.proxy_loading import resolve_proxy, run_formulas

    source = proxies[0] if proxies else ""
    if not proxies:
        known = operation_details()
        show_result(json, known, lambda: operations_report(known))
    elif all_:
        formulas = run_formulas(Path(source))
        show_result(json, formulas, lambda: formulas_report(formulas, source))
    elif len(proxies) > 1:
        rows = [proxy_glance(proxy) for proxy in proxies]
        documents = [row.model_dump(mode="json", exclude_unset=True) for row in rows]
        show_result(json, documents, lambda: proxy_comparison_table(rows))
    elif has_format:
        name = "latex" if latex else "tree" if tree else str(format_)
        expression = resolve_proxy(source).tree
        print(EXPORTERS.find(name)(expression))
    elif json:
        show_json(proxy_details(resolve_proxy(source)).model_dump(mode="json"))
    else:
        loaded = resolve_proxy(source)
        with as_written(source):
            parts = proxy_report(loaded)
        show(*parts)


def list_runs(
    folder: Annotated[Path, typer.Argument(help="The folder of the runs.", parser=path)] = Path(
        "runs"
    ),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs of a folder: kind, benchmark, fitness, test tau and age, the newest first."""
    from autoprox.loaded_runs import runs_below
    from autoprox.report.terminal.layout import show_result
    from autoprox.report.terminal.run_lists import runs_report

    found = runs_below(folder)
    show_result(json, found, lambda: runs_report(found, folder))


def report_runs(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[
        Path | None, path_option("File to write.", "report in the run's folder, or here")
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="Format: html, md (the tables), svg (the plots) or png (needs Chromium).",
            **offered(("html", "md", "svg", "png")),
        ),
    ] = "html",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page with a run's formula, results, plots and settings, or a comparison of several
    runs.

    The page is a single HTML file that works offline.
    """
    from autoprox.report.html.report_formats import write_report
    from autoprox.report.terminal.layout import show_result

    file = write_report(runs, format_, out)
    written = WrittenReport(file=str(file), format=format_, runs=[str(run) for run in runs])
    show_result(json, written, lambda: [f"Report: {file}"])
