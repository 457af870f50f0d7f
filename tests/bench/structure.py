"""Measure how much code there is, and how much of it one reader of `evolve` has to visit.

    python tests/bench/structure.py

Prints the source lines of the packages; the files whose functions one `autoprox evolve` enters;
and how often the package changes in the order in which functions are first entered: a reader who
follows the run switches that often.
"""

from __future__ import annotations

import pkgutil
import sys
import tempfile
import threading
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import autoprox
from autoprox import cli

ROOT = Path(__file__).parent.parent.parent
TOPS = ("autoprox", "primitives", "searchspaces")
COMMAND = (
    "evolve --form tree --datasets fashion-mnist --iterations 3 --batch-size 2 --workers 1 --quiet"
)


def source_lines() -> int:
    """Count the lines of all source files."""
    files = (file for top in TOPS for file in (ROOT / top).rglob("*.py"))
    return sum(len(file.read_text().splitlines()) for file in files)


def entered(arguments: list[str]) -> list[Path]:
    """Return the file of each function that a command enters, in the order of first entry.

    Everything is imported before, so that imports don't count; nor do comprehensions and lambdas.
    """
    for module in pkgutil.walk_packages(autoprox.__path__, "autoprox."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    seen: dict[CodeType, Path] = {}

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or code.co_name.startswith("<"):
            return
        file = Path(code.co_filename)
        if (
            file.suffix == ".py"
            and file.is_relative_to(ROOT)
            and file.relative_to(ROOT).parts[0] in TOPS
        ):
            seen[code] = file.relative_to(ROOT)

    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        cli.main(arguments)
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen.values())


def package(file: Path) -> str:
    """Return the package of a file; modules at the top are packages of their own."""
    parts = file.with_suffix("").parts
    return parts[1] if parts[0] == "autoprox" else parts[0]


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as folder:
        files = entered([*COMMAND.split(), "--runs", folder, "--cache", f"{folder}/cache"])
    packages = [package(file) for file in files]
    switches = sum(one != other for one, other in pairwise(packages))
    print(f"source lines: {source_lines():,}")
    print(f"one evolve enters {len(set(files))} files, with {switches} switches between packages")
    if "-v" in sys.argv:
        print("\n".join(map(str, dict.fromkeys(files))))
        print(" ".join(p for p, q in zip(packages, [None, *packages], strict=False) if p != q))


if __name__ == "__main__":
    main()
