"""The page of one run or of several: a single HTML file that needs nothing else."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autoprox.errors import printable
from autoprox.files.atomic_writes import write_text
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.files.rerun_command import rerun_command_line
from autoprox.language import parse_expression
from autoprox.loaded_runs import load_run
from autoprox.report.html import page_content, svg_geometry
from autoprox.report.terminal.layout import interval, number
from autoprox.runs.folder import REPORT, as_written

INDENT = re.compile(r"^[> ]+")
TEMPLATES = Environment(
    loader=PackageLoader("autoprox.report.html"),
    autoescape=True,
    finalize=lambda value: value if hasattr(value, "__html__") else printable(str(value)),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def breakable(text: str) -> Markup:
    """Let lines of a formula break after its parentheses, and not after what indents it."""
    own = INDENT.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), printable(text))
    return Markup("<wbr/>").join(re.split(r"(?<=\()", own))


for function in (
    breakable,
    format_with_unit,
    interval,
    number,
    parse_expression,
    page_content.format_setting,
):
    TEMPLATES.filters[function.__name__] = function
for helper in (rerun_command_line, svg_geometry.tree_layout):
    TEMPLATES.globals[helper.__name__] = helper
TEMPLATES.globals["content"] = page_content


def render_macro(template: str, name: str, *arguments: Any) -> str:
    """Return the markup that a macro of a template makes."""
    return str(getattr(TEMPLATES.get_template(template).module, name)(*arguments))


def write_page(path: Path) -> Path:
    """Write the page of a finished run into its folder."""
    out = path / REPORT
    write_text(out, render_page([path]))
    return out


def render_page(paths: Sequence[Path]) -> str:
    """Return the page of one run, or of several with a comparison first."""
    runs = [load_run(path) for path in paths]
    articles = []
    for run in runs:
        with as_written(run.path):
            articles.append(TEMPLATES.get_template("run.html.j2").render(run=run))
    with as_written(", ".join(map(str, paths))):
        return TEMPLATES.get_template("page.html.j2").render(runs=runs, articles=articles)
