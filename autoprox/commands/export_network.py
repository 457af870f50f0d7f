"""The command `export arch`: write the network of an architecture as files for other code."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from autoprox.declared_options import Positive
from autoprox.errors import ConfigError, RunError
from autoprox.export.architecture_formats import architecture_files
from autoprox.files.atomic_writes import atomic_file, write_text
from autoprox.files.json_documents import JSONDocument, parse_json, read_json
from autoprox.files.rerun_command import rerun_command_line
from autoprox.runs.folder import CONFIG, ENVIRONMENT, Run, as_written
from autoprox.runs.summary import ArchitectureDocument
from autoprox.searchspaces import (
    Architecture,
    SearchSpace,
    architecture_from_json,
    get_space,
)
from autoprox.searchspaces.swin import SwinSpace
from autoprox.zoo.proxy_loading import find_run

# The key of a summary, by the kind of the run, that has its architectures.
WITH_ARCHITECTURES = {"search": "top", "prenas": "preferred", "s3": "best"}


class ArchitectureToExport(NamedTuple):
    """An architecture, and the number of classes that its network is to have."""

    architecture: Architecture
    classes: int


class ExportedArchitecture(JSONDocument):
    """An architecture whose network was written, and the files in `out`."""

    architecture: ArchitectureDocument
    params: int
    classes: int
    format: str
    out: str | None
    files: tuple[str, ...]


class ExportedProxy(JSONDocument):
    """A proxy that was written in a format, as `export proxy` prints it."""

    proxy: str
    format: str
    out: str | None
    text: str


def read_architecture(
    source: str, space: str | None = None, classes: int | None = None
) -> ArchitectureToExport:
    """Read the architecture of a run (RUN:N the Nth best), or of a JSON file or text.

    The classes are those of the run unless the caller gives others, and the space's default if none
    are known. An entry of a search also has the network's number of parameters: if that isn't the
    number with the default classes, the user must name the classes.
    """
    folder: Path | None = None
    entry: Any
    run = None if os.path.isfile(source) or source.endswith(".json") else find_run(source)
    named = None if space is None else get_space(space)
    if run is not None:
        folder, which = run
        entries, named = _entries_of_run(folder, space)
        number = int(which) if which.isdecimal() else 0
        if not 1 <= number <= len(entries):
            rule = f"{folder} has the architectures 1 to {len(entries)}"
            raise ConfigError(f"{rule}, but got {folder}:{which}")
        with as_written(folder):
            architecture = architecture_from_json(entries[number - 1], named)
        entry = entries[number - 1]
    elif source.lstrip().startswith(("{", "[")):
        entry = parse_json(source.encode(), "the JSON").plain()
        architecture = architecture_from_json(entry, named)
    else:
        folder, entry = Path(source).parent, read_json(Path(source)).plain()
        if named is None and _is_run(folder):
            named = _space_of_run(Run.open(folder))
        architecture = architecture_from_json(entry, named)
    entry = entry[0] if isinstance(entry, list) else entry
    classes = classes or (None if folder is None else _classes_of_run(folder))
    default = get_space(architecture.space).default_classes
    if classes is None:
        stated = entry.get("params") if isinstance(entry, dict) else None
        params = get_space(architecture.space).params(architecture, default)
        if isinstance(stated, int) and stated != params:
            raise ConfigError(
                f"--classes must be given for a network of {stated} parameters, "
                f"but got none, and with {default} it has {params}"
            )
    return ArchitectureToExport(architecture, classes or default)


def _entries_of_run(path: Path, space: str | None) -> tuple[list[dict[str, Any]], SearchSpace]:
    """Return the entries of a run's best or preferred architectures, and their space.

    The best of a search of the search space is in the last space.
    """
    run = Run.open(path)
    if run.kind not in WITH_ARCHITECTURES:
        rule = "a run of `autoprox search`, `autoprox prenas` or `autoprox s3` is needed"
        raise RunError(f"{rule}, but {path} is one of `autoprox {run.kind}`")
    summary = run.read_summary()
    if summary is None:
        raise ConfigError(
            f"a search must have ended to have an architecture, but {path} has not: "
            f"`{rerun_command_line('resume', path)}` continues it"
        )
    with as_written(path):
        within = _space_of_run(run)
        if space is not None and get_space(space).name != within.name:
            raise ConfigError(f"--space must be the run's, {within.name}, but got {space}")
        found: Any = summary[WITH_ARCHITECTURES[run.kind]]
        if run.kind == "s3" and isinstance(within, SwinSpace):
            options = summary["rounds"][-1]["options"]
            within = within.with_options({name: tuple(own) for name, own in options.items()})
        return [found] if isinstance(found, dict) else list(found), within


def _space_of_run(run: Run) -> SearchSpace:
    with as_written(run.path):
        return get_space(str(run.read_config()["space"]))


def _is_run(folder: Path) -> bool:
    return all((folder / name).exists() for name in (CONFIG, ENVIRONMENT))


def _classes_of_run(folder: Path) -> int | None:
    """Return the classes of a run's networks; None if the folder is no run, or has none."""
    if not _is_run(folder):
        return None
    run = Run.open(folder)
    with as_written(folder):
        # A search has them in its configuration; s3 reads them from the images, into its summary.
        for record in (run.read_config(), run.read_summary() or {}):
            if (classes := record.get("classes")) is not None:
                return TypeAdapter(Positive).validate_python(classes)
    return None


def export_architecture(
    architecture: Architecture, target: str, out: Path | None, classes: int
) -> ExportedArchitecture:
    """Write the files of an architecture in a new folder.

    JSON is one file, and only returned without a path.
    """
    space = get_space(architecture.space)
    files = architecture_files(target, space, architecture, classes)
    names = sorted(files)
    if target == "json":
        names = [] if out is None else [out.name]
        if out is not None:
            write_text(out, str(files["architecture.json"]))
    else:
        out = out or Path(f"{space.name}-{architecture.digest[:8]}-{target}")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"--out must be a new or an empty folder, but {out} is there")
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with atomic_file(out / name) as file:
                file.write(content.encode() if isinstance(content, str) else content)
    return ExportedArchitecture(
        architecture=ArchitectureDocument(**architecture.to_json()),
        params=space.params(architecture, classes),
        classes=classes,
        format=target,
        out=None if out is None else str(out),
        files=tuple(names),
    )
