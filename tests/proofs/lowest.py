"""Prints the lowest versions that pyproject.toml declares.

    python tests/proofs/lowest.py [EXTRA]...

A line for each requirement of the package and of the extras, for `pip install -r`. Torch, and what
is built for one version of it, stays as constraints.txt has it: its older builds aren't published
for processors alone.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings

ROOT = Path(__file__).parents[2]
TESTED = ("torch", "torchvision")
REQUIREMENT = re.compile(r"([a-z0-9-]+)(\[[a-z0-9,-]+\])?>=([0-9.]+)[^;]*(;.*)?", re.IGNORECASE)


def lowest(requirements: list[str]) -> Iterator[str]:
    """Each requirement as its lowest version."""
    for requirement in requirements:
        if requirement.startswith("autoprox["):
            continue
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"a requirement must be NAME>=VERSION, but got {requirement!r}")
        name, extra, version, marker = found.groups()
        if name not in TESTED:
            yield f"{name}{extra or ''}=={version}{marker or ''}"


def tested() -> Iterator[str]:
    """What isn't taken at its lowest version."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.partition("==")[0] in TESTED:
            yield line


def main(extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    print("\n".join([*lowest(wanted), *tested()]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    main(parser.parse_args().extras)
