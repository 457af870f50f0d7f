"""What prose names exists: options, and the targets of links outside the site."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.blocks import FENCE
from pages.commands import all_commands, parsed_command

ROOT = Path(__file__).parent.parent.parent
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ROADMAP.md", "runs/README.md")]
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").glob("*.md"))]
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OF_OTHERS = {  # options of programs that aren't ours
    "CONTRIBUTING.md": {"--cov"},
}


def prose(path: Path) -> Iterator[str]:
    """Yield the lines of a page outside fenced blocks."""
    inside = False
    for line in path.read_text().split("\n"):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield line


def known_options() -> set[str]:
    """Return the options of all commands, with those that the command line itself has."""
    found = {"--help", "--version", "--install-completion", "--show-completion"}
    for name in all_commands():
        for own in parsed_command(name).params:
            found |= {*own.opts, *own.secondary_opts}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_prose_exist(page: Path) -> None:
    named = {option for line in prose(page) for option in OPTION.findall(line)}
    assert named - known_options() - OF_OTHERS.get(page.name, set()) == set()


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for line in prose(page) for link in LINK.findall(line) if not leads(page, link)]
    assert broken == []


def leads(page: Path, link: str) -> bool:
    """Return whether a link is to another site, or to a file and a heading that exist."""
    if re.match(r"https?:", link):
        return True
    name, _, anchor = link.partition("#")
    target = (page.parent / name) if name else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = (line.lstrip("#") for line in prose(page) if line.startswith("#"))
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", own).strip().lower()) for own in titles}


def test_a_wrong_option_or_link_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title's `word`\n`--nonsense` [a](page.md#a-titles-word) [b](no.md)\n")
    assert OPTION.findall(page.read_text()) == ["--nonsense"]
    assert "--nonsense" not in known_options()
    assert leads(page, "page.md#a-titles-word")
    assert not leads(page, "no.md")
    assert not leads(page, "page.md#b")
