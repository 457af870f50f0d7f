"""Lists what the package needs, with licences, in licences.md: `make licences`.

As the installed packages themselves declare it; those that extras alone need aren't listed.
"""

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = """# What autoprox needs, and under which licences
Written by `make licences` from what the installed packages declare. Those in bold are needed by
autoprox itself, the others by them.

| package | version | licence |
|---|---|---|
"""


def required(package: Distribution) -> Iterator[str]:
    """What a package needs on this machine, with the extras that it asks for of others."""
    for line in package.requires or ():
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield canonicalize_name(need.name)
            for extra in need.extras:
                yield from _of_extra(need.name, extra)


def _of_extra(name: str, extra: str) -> Iterator[str]:
    for line in distribution(name).requires or ():
        need = Requirement(line)
        if need.marker is not None and f'"{extra}"' in str(need.marker):
            yield canonicalize_name(need.name)


def licence(package: Distribution) -> str:
    """As the metadata has it: an expression, a classifier, or a first line."""
    data = package.metadata
    if expression := data.get("License-Expression"):
        return expression
    classified = [c.split(" :: ")[-1] for c in data.get_all("Classifier", []) if "License ::" in c]
    text = (data.get("License") or "").strip().partition("\n")[0]
    return ", ".join(classified) if classified and classified != ["OSI Approved"] else text or "?"


def installed() -> dict[str, Distribution]:
    """What is needed, however indirectly, by name; what another platform needs is absent."""
    found: dict[str, Distribution] = {}
    waiting = [*required(distribution("autoprox"))]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += required(found[name])
    return dict(sorted(found.items()))


def listing() -> str:
    """The document."""
    needs = map(Requirement, distribution("autoprox").requires or ())
    direct = {canonicalize_name(need.name) for need in needs if need.marker is None}
    rows = []
    for name, package in installed().items():
        shown = f"**{name}**" if name in direct else name
        rows.append(f"| {shown} | {package.version} | {licence(package)} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (Path(__file__).parent / "licences.md").write_text(listing())
