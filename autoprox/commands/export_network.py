"""The command `export arch`: write the network of an architecture as files for other code."""

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from autoprox.declared_options import Positive
from autoprox.errors import ConfigError
from autoprox.export.architecture_formats import architecture_files
from autoprox.files.atomic_writes import atomic_file, to_json, write_text
from autoprox.files.json_documents import JSONDocument, parse_json, read_json
from autoprox.files.rerun_command import rerun_command_line
from autoprox.runs.folder import CONFIG, ENVIRONMENT, Run, as_written
from autoprox.runs.summary import ArchitectureDocument
from autoprox.searchspaces import Architecture, ArchitectureError, get_space
from autoprox.searchspaces.swin import SwinSpace

DEFAULT_CLASSES = 1000  # of a network that no run was about
ARCHITECTURE_INPUT_HELP = (
    "{space, choices}, an entry or the list of a search's top.json, or choices with --space"
)


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
    """Read the architecture of a run of search or s3 (its best one), or of a JSON file or text.

    The classes are those of the run unless the caller gives others, and 1000 if none are known. An
    entry of a search also has the network's number of parameters: if that isn't the number with
    1000 classes, the user must name the classes.
    """
    path = Path(source)
    if path.is_dir():
        architecture, entry = _best_of_run(path, space)
        classes = classes or _classes_of_run(path)
    else:
        if source.lstrip().startswith("{"):
            entry = parse_json(source.encode(), "the JSON").plain()
        else:
            entry = read_json(path).plain()
            classes = classes or _classes_of_run(path.parent)
        if isinstance(entry, list) and entry:
            entry = entry[0]
        architecture = _architecture_of(entry, space)
    if classes is None:
        stated = entry.get("params") if isinstance(entry, dict) else None
        params = get_space(architecture.space).params(architecture, DEFAULT_CLASSES)
        if isinstance(stated, int) and stated != params:
            raise ConfigError(
                f"--classes must be given for a network of {stated} parameters, "
                f"but got none, and with {DEFAULT_CLASSES} it has {params}"
            )
    return ArchitectureToExport(architecture, classes or DEFAULT_CLASSES)


def _architecture_of(entry: Any, space: str | None) -> Architecture:
    """Return the architecture of a JSON value."""
    choices = entry
    if isinstance(entry, dict) and set(entry) == {"space", "choices"}:
        space, choices = _require_same_space(space, str(entry["space"])), entry["choices"]
    elif isinstance(entry, dict) and isinstance(entry.get("arch"), dict):
        choices = entry["arch"]
    if not isinstance(choices, dict):
        got = to_json(choices)[:60]
        raise ArchitectureError(f"an architecture must be {ARCHITECTURE_INPUT_HELP}, but got {got}")
    if space is None:
        raise ConfigError("an architecture's choices need --space, but got none")
    return get_space(space).architecture(choices)


def _best_of_run(path: Path, space: str | None) -> tuple[Architecture, dict[str, Any]]:
    """Return the best of a search, and its entry in the summary.

    The best of a search of the search space is in the last space.
    """
    run = Run.open(path)
    if run.kind != "s3":
        run = Run.open(path, "search")
    summary = run.read_summary()
    if summary is None:
        raise ConfigError(
            f"a search must have ended to have an architecture, but {path} has not: "
            f"`{rerun_command_line('resume', path)}` goes on with it"
        )
    with as_written(path):
        within = get_space(_require_same_space(space, str(run.read_config()["space"])))
        best: dict[str, Any] = summary["best"]
        choices = best["arch"]
        if run.kind == "s3" and isinstance(within, SwinSpace):
            options = summary["rounds"][-1]["options"]
            within = within.with_options({name: tuple(own) for name, own in options.items()})
            choices = choices["choices"]
    return within.architecture(choices), best


def _classes_of_run(folder: Path) -> int | None:
    """Return the classes of a run's networks; None if the folder is no run, or has none."""
    if not all((folder / name).exists() for name in (CONFIG, ENVIRONMENT)):
        return None
    run = Run.open(folder)
    with as_written(folder):
        # A search has them in its configuration; s3 reads them from the images, into its summary.
        for record in (run.read_config(), run.read_summary() or {}):
            if (classes := record.get("classes")) is not None:
                return TypeAdapter(Positive).validate_python(classes)
    return None


def _require_same_space(given: str | None, found: str) -> str:
    if given is not None and get_space(given).name != get_space(found).name:
        raise ConfigError(f"--space must be the architecture's, {found}, but got {given}")
    return found


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
