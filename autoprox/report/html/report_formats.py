"""The formats of a report: a page as HTML, its plots as SVG, its text as Markdown, its picture."""

import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autoprox.errors import ConfigError, FailureError, nearest
from autoprox.files.atomic_writes import write_text
from autoprox.report.html.page_rendering import TEMPLATES, render_page
from autoprox.report.terminal.layout import markdown_line

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HIGHEST = 16_000  # pixels of a picture
PLOT_GAP = 24  # pixels between two plots
SVG = "http://www.w3.org/2000/svg"
MARKDOWN_HEADINGS = {"h1": "#", "h2": "##", "h3": "###"}
FORMULAS_AND_PLOTS = {f"{{{SVG}}}svg", "math", "style"}

ElementTree.register_namespace("", SVG)


def write_report(runs: Sequence[Path], form: str = "html", out: Path | None = None) -> Path:
    """Write the page of runs in one of the formats; return the file."""
    if form not in REPORT_FORMATS:
        raise ConfigError(f"unknown format {form!r}{nearest(form, REPORT_FORMATS)}")
    if not runs:
        raise ConfigError("a report must be of at least one run, but got none")
    page = render_page(runs)
    file = out or (runs[0] / f"report.{form}" if len(runs) == 1 else Path(f"report.{form}"))
    REPORT_FORMATS[form](page, file)
    return file


def plots_svg(runs: Sequence[Path]) -> str:
    """Return all plots of the page of runs below each other, as SVG."""
    return _svg(render_page(runs))


def _svg(page: str) -> str:
    whole = ElementTree.Element(f"{{{SVG}}}svg")
    css = TEMPLATES.get_template("style.css").render()
    ElementTree.SubElement(whole, f"{{{SVG}}}style").text = f"{css} svg {{ max-width: none; }}"
    top = widest = 0
    for plot in ElementTree.fromstring(page).iter(f"{{{SVG}}}svg"):
        width, height = plot.attrib["viewBox"].split()[2:]
        plot.attrib.update(y=str(top), width=width, height=height)
        plot.tail = None
        whole.append(plot)
        top, widest = top + int(height) + PLOT_GAP, max(widest, int(width))
    if not top:
        raise ConfigError("a page must have plots to be written as svg, but this one has none")
    whole.attrib.update(viewBox=f"0 0 {widest} {top}", width=str(widest), height=str(top))
    return ElementTree.tostring(whole, encoding="unicode") + "\n"


def _write_png(page: str, file: Path) -> None:
    """Write the page as a browser shows it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ConfigError(
            f"the format png needs a browser, one of {', '.join(BROWSERS)}, but none is "
            "installed; html, svg and md need nothing"
        )
    rows = page.count("<tr>") * 28 + page.count("<figure>") * 320 + page.count("<section>") * 70
    with tempfile.TemporaryDirectory() as folder:
        source, picture = Path(folder, "page.html"), Path(folder, "page.png")
        write_text(source, page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--window-size=1100,{min(HIGHEST, 600 + rows)}", f"--screenshot={picture}"]
        command = [browser, *options, f"--user-data-dir={folder}/profile", source.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if not picture.is_file():
            raise FailureError(f"{browser} must make a picture, but said {done.stderr[-200:]!r}")
        shutil.copyfile(picture, file)


def _write_markdown(page: str, file: Path) -> None:
    """Write the headings, tables, paragraphs and preformatted text of the page."""
    document = ElementTree.fromstring(page)
    for parent in list(document.iter()):
        for child in [child for child in parent if child.tag in FORMULAS_AND_PLOTS]:
            parent.remove(child)
    lines: list[str] = []
    for element in document.iter():
        text = "".join(element.itertext()).strip()
        if element.tag == "table":
            rows = [[_cell(cell) for cell in row] for row in element.iter("tr")]
            rows[1:1] = [["---"] * len(row) for row in rows[:1]]
            lines += ["", *map(markdown_line, rows)]
        elif element.tag in MARKDOWN_HEADINGS:
            lines += ["", f"{MARKDOWN_HEADINGS[element.tag]} {text}"]
        elif element.tag == "pre":
            lines += ["", "```", text, "```"]
        elif element.tag == "p" and text:
            lines += ["", text]
    write_text(file, "\n".join(lines).strip() + "\n")


def _cell(element: ElementTree.Element) -> str:
    return "".join(element.itertext()).strip().replace("\n", " ").replace("|", r"\|")


REPORT_FORMATS: Mapping[str, Callable[[str, Path], None]] = {
    "html": lambda page, file: write_text(file, page),
    "md": _write_markdown,
    "svg": lambda page, file: write_text(file, _svg(page)),
    "png": _write_png,
}
