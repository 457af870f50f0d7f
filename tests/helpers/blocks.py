"""The fenced blocks of a page of Markdown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*(.*?)\s*$")
SCHEMA = re.compile(r"<!-- schema: ([\w-]+) -->")


class Block(NamedTuple):
    """A block: its language, its text, its first line, and the line above it."""

    language: str
    text: str
    line: int
    above: str

    @property
    def schema(self) -> str | None:
        """The schema that a comment above it names."""
        found = SCHEMA.search(self.above)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, continued lines joined and comments left out."""
        lines = self.text.replace("\\\n", " ").split("\n")
        plain = (re.sub(r"\s+#.*$|^#.*$", "", line).strip() for line in lines)
        return [line for line in plain if line]


def blocks(path: Path) -> Iterator[Block]:
    """Every fenced block of a page."""
    above, opened, lines = "", None, []
    for number, line in enumerate(path.read_text().split("\n"), start=1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, lines = Block(fence[3], "", number, above), []
        elif opened is not None and fence and not fence[3]:
            yield opened._replace(text="\n".join(lines))
            opened = None
        elif opened is not None:
            lines.append(line)
        above = line
    if opened is not None:
        raise ValueError(f"{path}:{opened.line} opens a block that nothing closes")


def indented(path: Path) -> list[str]:
    """Lines that Markdown takes for code by their indent alone, which no test would see."""
    found, before, inside = [], "", False
    for number, line in enumerate(path.read_text().split("\n"), start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and re.match(r" {4}\S", line) and not before.strip():
            found.append(f"{path.name}:{number}")
        before = line
    return found
