"""Pages in a real browser: they load from the disk alone, fit a phone, and are drawn at once."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from helpers.browser import Page, browser, find_browser
from helpers.pages import COMMITTED, discovery, search_run, spaces_run

from autoprox.report.html.page_rendering import render_page
from autoprox.report.html.report_formats import BROWSERS

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason=f"needs a browser, one of {', '.join(BROWSERS)}"
)
KINDS: dict[str, Callable[[Path], Sequence[Path]]] = {
    "evolve": lambda folder: [discovery(folder / "run")],
    "spaces": lambda folder: [spaces_run(folder / "run")],
    "rank": lambda folder: COMMITTED[-1:],
    "search": lambda folder: [search_run(folder / "run", 50)],
    "several": lambda folder: COMMITTED,
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture(scope="module", params=KINDS)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    written = folder / "page.html"
    written.write_text(render_page(KINDS[request.param](folder)))
    return written


def test_a_page_needs_nothing_but_itself(page: Page, file: Path) -> None:
    page.open(file)
    assert page.requests() == [file.as_uri()]
    assert page.complaints() == []


@pytest.mark.parametrize("width", [360, 1100])
def test_a_page_never_scrolls_sideways(page: Page, file: Path, width: int) -> None:
    page.open(file, width)
    assert page.value("innerWidth") == width
    assert page.value(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def test_words_of_plots_are_readable_on_a_phone(page: Page, file: Path) -> None:
    page.open(file, 360)
    heights = page.value(
        "[...document.querySelectorAll('figure text')].map(own => {"
        "const svg = own.ownerSVGElement;"
        "return svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * 11})"
    )
    assert min(heights) >= 9.5


def test_a_page_is_light_and_dark(page: Page, file: Path) -> None:
    found = []
    for dark in (False, True):
        page.open(file, dark=dark)
        found.append(page.value("getComputedStyle(document.body).backgroundColor"))
    assert found == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


def test_what_a_browser_complains_of_is_seen(page: Page, tmp_path: Path) -> None:
    """A page that asks for a file that isn't there, and is too wide."""
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='absent.png'/><div style='width: 900px'>x</div>")
    page.open(bad, 360)
    assert len(page.requests()) == 2
    assert page.complaints()
    assert page.value("document.documentElement.scrollWidth") > 360
