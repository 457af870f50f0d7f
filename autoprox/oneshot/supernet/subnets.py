"""Files of subnets, of which a supernet is trained, or one is taken."""

from pathlib import Path
from typing import Any

from autoprox.files.json_documents import read_json
from autoprox.oneshot.supernet.slices import SupernetError
from autoprox.searchspaces import Architecture, ArchitectureError, SearchSpace


def read_subnets(path: Path, space: SearchSpace) -> tuple[Architecture, ...]:
    """Return the different architectures of a file, in the order of their first entries."""
    return tuple(dict.fromkeys(read_entries(path, space)))


def read_entries(path: Path, space: SearchSpace) -> list[Architecture]:
    """Return the architectures of a file: an array of objects with `arch`, their choices.

    `prenas` and `search` write such files: preferred.json and top.json.
    """
    entries = read_json(path).plain()
    if not isinstance(entries, list) or not entries:
        raise SupernetError(f"{path} must be an array of objects with arch, at least one")
    found = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or "arch" not in entry:
            raise SupernetError(f"{path}: [{place}] must be an object with arch, but is {entry!r}")
        found.append(_architecture(f"{path}: [{place}]", entry["arch"], space))
    return found


def read_subnet(path: Path, space: SearchSpace) -> Architecture:
    """The architecture of a file: an object with `space` and `choices`."""
    entry = read_json(path).plain()
    if not isinstance(entry, dict) or set(entry) != {"space", "choices"}:
        raise SupernetError(f"{path} must be an object with space and choices, but is {entry!r}")
    if entry["space"] != space.name:
        raise SupernetError(f"{path} must be of {space.name}, but is of {entry['space']}")
    return _architecture(str(path), entry["choices"], space)


def _architecture(place: str, choices: Any, space: SearchSpace) -> Architecture:
    try:
        return space.architecture(choices)
    except ArchitectureError as error:
        raise SupernetError(f"{place} must be of {space.name}, but {error}") from error
