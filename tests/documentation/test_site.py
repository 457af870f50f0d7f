"""The site is built without a warning, and a reader's browser asks nobody else for anything."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.browser import browser, find_browser

ROOT = Path(__file__).parent.parent.parent
ASKED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?([^"'\s>]+)""")
URL = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet, by which warnings would be no errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def foreign(text: str) -> list[str]:
    """What a browser would fetch from elsewhere for a page or a style sheet."""
    asked = [found for found in ASKED.findall(text) if re.match(r"(https?:)?//", found)]
    return asked + URL.findall(text)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert (site / "schemas" / "evolve.schema.json").is_file()
    assert [*site.rglob("*.py")] == []
    pages, styles = [*site.rglob("*.html")], [*site.rglob("*.css")]
    assert len(pages) > 15
    assert styles
    assert {f.name: foreign(f.read_text()) for f in (*pages, *styles)} == {
        f.name: [] for f in (*pages, *styles)
    }


def test_what_would_be_fetched_is_found() -> None:
    assert foreign('<link href="https://fonts.example/a.css">') == ["https://fonts.example/a.css"]
    assert foreign("@import url('//fonts.example/b.css')") == ["//fonts.example/b.css"]
    assert foreign('<a href="https://example.org">') == []


def test_every_page_links_to_the_glossary(site: Path) -> None:
    pages = {*site.rglob("*.html")} - {site / "404.html", site / "glossary.html"}
    without = [own.name for own in pages if "glossary.html" not in article(own)]
    assert without == []


def test_every_page_of_results_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    missing = [
        own.name
        for own in (site / "results").glob("*.html")
        if f'href="results/{own.name}"' not in home
    ]
    assert missing == []


def test_every_page_can_be_searched(site: Path) -> None:
    """The index is a file of the site, which the browser searches by itself."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    known = {own["location"].partition("#")[0] for own in index["docs"]}
    pages = {str(own.relative_to(site)) for own in site.rglob("*.html")} - {"404.html"}
    assert pages - known == set()
    text = " ".join(own["text"] for own in index["docs"] if "glossary" in own["location"])
    assert "supernet" in text


TYPED = """(() => {
  const field = document.querySelector("[data-md-component=search-query]");
  field.focus();
  field.value = "supernet";
  field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
})()"""
FOUND = """new Promise((done) => {
  const end = Date.now() + 20000;
  const look = () => {
    const found = [...document.querySelectorAll(".md-search-result__link")];
    if (found.length) done(found.map((own) => own.getAttribute("href")));
    else if (Date.now() > end) done([]);
    else setTimeout(look, 100);
  };
  look();
})"""


@pytest.mark.skipif(find_browser() is None, reason="there is no browser")
@pytest.mark.parametrize("name", ["index.html", "results/transfer.html"])
def test_a_site_that_is_opened_as_files_can_be_searched(site: Path, name: str) -> None:
    with browser() as page:
        page.open(site / name)
        page.value(TYPED)
        assert any("glossary.html" in link for link in page.value(FOUND))
        assert page.complaints() == []


def article(page: Path) -> str:
    """Return the part of a page that its own text makes."""
    return page.read_text().partition("<article")[2].partition("</article>")[0]
