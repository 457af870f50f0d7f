"""The site is built without a warning, and a reader's browser asks nobody else for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ASKED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?([^"'\s>]+)""")
URL = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
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
