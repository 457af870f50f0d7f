"""Takes an architecture or a proxy away, as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from autoprox.errors import ConfigError
from autoprox.export.architecture_formats import architecture_files
from autoprox.files.atomic import atomic_file, to_json, write_text
from autoprox.files.located_json import parse_json, read_json
from autoprox.files.program import command_line
from autoprox.options import Positive
from autoprox.runs.folder import CONFIG, ENVIRONMENT, Run, as_written
from autoprox.searchspaces import Architecture, ArchitectureError, get_space
from autoprox.searchspaces.swin import SwinSpace

S3 = "s3"
CLASSES = 1000  # of a network that no run was about
FORMS = "{space, choices}, an entry or the list of a search's top.json, or choices with --space"


class Exported(NamedTuple):
    """An architecture, and the number of classes that its network is to have."""

    architecture: Architecture
    classes: int


def read_architecture(
    source: str, space: str | None = None, classes: int | None = None
) -> Exported:
    """Read the architecture of a run of search or s3 (its best one), or of a JSON file or text.

    The classes are those of the run unless the caller gives others.
    """
    if Path(source).is_dir():
        architecture, entry = _of_run(Path(source), space)
        return _with_classes(architecture, entry, classes or _classes_of(Path(source)))
    if source.lstrip().startswith("{"):
        found = parse_json(source.encode(), "the JSON").plain()
    else:
        found = read_json(Path(source)).plain()
        classes = classes or _classes_of(Path(source).parent)
    if isinstance(found, list) and found:
        found = found[0]
    entry = found
    if isinstance(found, dict) and set(found) == {"space", "choices"}:
        space, found = _same(space, str(found["space"])), found["choices"]
    elif isinstance(found, dict) and isinstance(found.get("arch"), dict):
        found = found["arch"]
    if not isinstance(found, dict):
        raise ArchitectureError(f"an architecture must be {FORMS}, but got {to_json(found)[:60]}")
    if space is None:
        raise ConfigError("an architecture's choices need --space, but got none")
    return _with_classes(get_space(space).architecture(found), entry, classes)


def _of_run(path: Path, space: str | None) -> tuple[Architecture, Mapping[str, Any]]:
    """Return the best of a search, and its entry in the summary.

    The best of a search of the search space is in the last space.
    """
    run = Run.open(path)
    if run.kind != S3:
        run = Run.open(path, "search")
    summary = run.read_summary()
    if summary is None:
        raise ConfigError(
            f"a search must have ended to have an architecture, but {path} has not: "
            f"`{command_line('resume', path)}` goes on with it"
        )
    with as_written(path):
        within, best = get_space(_same(space, str(run.read_config()["space"]))), summary["best"]
        found = best["arch"]
        if run.kind == S3 and isinstance(within, SwinSpace):
            options = summary["rounds"][-1]["options"]
            within = within.with_options({name: tuple(own) for name, own in options.items()})
            found = found["choices"]
    return within.architecture(found), best


def _classes_of(folder: Path) -> int | None:
    """Return the classes of the networks of a run, if the folder is a run that recorded them."""
    if not all((folder / name).exists() for name in (CONFIG, ENVIRONMENT)):
        return None
    run = Run.open(folder)
    with as_written(folder):
        # A search has them in its configuration, s3, whose images say them, in its summary.
        records = run.read_config(), run.read_summary() or {}
        found = [known for own in records if (known := own.get("classes")) is not None]
        return TypeAdapter(Positive).validate_python(found[0]) if found else None


def _with_classes(architecture: Architecture, entry: Any, classes: int | None) -> Exported:
    """Return the architecture with its classes: 1000 if none are known.

    An entry of a search also says how many parameters the network has; if that isn't so with 1000
    classes, the user must name them.
    """
    if classes is not None:
        return Exported(architecture, classes)
    stated = entry.get("params") if isinstance(entry, dict) else None
    params = get_space(architecture.space).params(architecture, CLASSES)
    if isinstance(stated, int) and stated != params:
        raise ConfigError(
            f"--classes must be given for a network of {stated} parameters, "
            f"but got none, and with {CLASSES} it has {params}"
        )
    return Exported(architecture, CLASSES)


def _same(given: str | None, found: str) -> str:
    if given is not None and get_space(given).name != get_space(found).name:
        raise ConfigError(f"--space must be the architecture's, {found}, but got {given}")
    return found


def export_architecture(
    architecture: Architecture, target: str, out: Path | None, classes: int
) -> dict[str, Any]:
    """Write the files of an architecture in a new folder; returns what was written, and where.

    In JSON it is one file, or where none is given only returned.
    """
    space = get_space(architecture.space)
    written = architecture_files(target, space, architecture, classes)
    found: dict[str, Any] = {
        "architecture": architecture.to_json(),
        "params": space.params(architecture, classes),
        "classes": classes,
        "target": target,
    }
    if target == "json":
        if out is not None:
            write_text(out, str(written["architecture.json"]))
        return {**found, "out": out, "files": [] if out is None else [out.name]}
    folder = out or Path(f"{space.name}-{architecture.digest[:8]}-{target}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out must be a new or an empty folder, but {folder} is there")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in written.items():
        with atomic_file(folder / name) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    return {**found, "out": folder, "files": sorted(written)}
