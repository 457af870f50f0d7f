"""The forms in which a page is written: HTML, its plots, its text, its picture."""

import html
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

from autoprox.errors import ConfigError, FailureError, nearest
from autoprox.files.atomic import write_text
from autoprox.report.html.document import page_of
from autoprox.report.html.style import CSS
from autoprox.report.terminal.layout import markdown_line

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HIGHEST = 16_000  # pixels of a picture
FIGURE = re.compile(r'<svg[^>]*xmlns="http://www\.w3\.org/2000/svg"[^>]*>.*?</svg>', re.DOTALL)
SIZE = re.compile(r'viewBox="0 0 (\d+) (\d+)"')
GAP = 24


def write_report(runs: Sequence[Path], form: str = "html", out: Path | None = None) -> Path:
    """Write the page of runs in one of the forms; returns the file."""
    if form not in FORMS:
        raise ConfigError(f"unknown format {form!r}{nearest(form, FORMS)}")
    if not runs:
        raise ConfigError("a report must be of at least one run, but got none")
    page = page_of(runs)
    file = out or (runs[0] / f"report.{form}" if len(runs) == 1 else Path(f"report.{form}"))
    FORMS[form](page, file)
    return file


def _svg(page: str, file: Path) -> None:
    """All plots of the page below each other."""
    placed, height, width = [], 0, 0
    for figure in FIGURE.findall(page):
        size = SIZE.search(figure)
        if size is not None:
            own_width, own_height = map(int, size.groups())
            sized = re.sub(r' (?:width|height)="\d+"', "", figure.split(">", 1)[0])
            rest = figure.split(">", 1)[1]
            placed.append(f'{sized} y="{height}" width="{own_width}" height="{own_height}">{rest}')
            height, width = height + own_height + GAP, max(width, own_width)
    if not placed:
        raise ConfigError("a page must have plots to be written as svg, but this one has none")
    style = f"<style>{html.escape(CSS, quote=False)} svg {{ max-width: none; }}</style>"
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    write_text(file, f"{opened}{style}{''.join(placed)}</svg>\n")


def _png(page: str, file: Path) -> None:
    """The page as a browser shows it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ConfigError(
            f"the format png needs a browser, one of {', '.join(BROWSERS)}, but none is "
            "installed; html, svg and md need nothing"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, picture = Path(folder, "page.html"), Path(folder, "page.png")
        write_text(source, page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        more = [f"--window-size=1100,{_height(page)}", f"--screenshot={picture}"]
        command = [browser, *options, f"--user-data-dir={folder}/profile", *more, source.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if not picture.is_file():
            raise FailureError(f"{browser} must make a picture, but said {done.stderr[-200:]!r}")
        shutil.copyfile(picture, file)


def _height(page: str) -> int:
    """About the height of a page, from its rows and plots."""
    rows = page.count("<tr>") * 28 + page.count("<figure>") * 320 + page.count("<section>") * 70
    return min(HIGHEST, 600 + rows)


class _Markdown(HTMLParser):
    """Headings, tables, paragraphs and preformatted text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._text: list[str] = []
        self._row: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in HIDDEN
        if tag in BLOCKS:
            self._text = []
        if tag == "tr":
            self._row = []
        if tag == "table":
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in HIDDEN
        words = "".join(self._text).strip()
        if tag in HEADINGS:
            self.lines += ["", f"{HEADINGS[tag]} {words}"]
        elif tag in ("th", "td"):
            self._row.append(words.replace("\n", " ").replace("|", r"\|"))
        elif tag == "tr":
            first = bool(self.lines) and not self.lines[-1]
            self.lines.append(markdown_line(self._row))
            if first:
                self.lines.append(markdown_line(["---"] * len(self._row)))
        elif tag == "pre":
            self.lines += ["", "```", words, "```"]
        elif tag == "p" and words:
            self.lines += ["", words]


HEADINGS = {"h1": "#", "h2": "##", "h3": "###"}
BLOCKS = {*HEADINGS, "th", "td", "pre", "p"}
HIDDEN = {"svg", "style", "math"}


def _markdown(page: str, file: Path) -> None:
    """Its headings, tables and texts."""
    reader = _Markdown()
    reader.feed(page)
    write_text(file, "\n".join(reader.lines).strip() + "\n")


FORMS: Mapping[str, Callable[[str, Path], None]] = {
    "html": lambda page, file: write_text(file, page),
    "md": _markdown,
    "svg": _svg,
    "png": _png,
}
