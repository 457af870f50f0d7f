"""Takes an architecture or a proxy away, as files."""

from pathlib import Path
from typing import Any

from autoprox.errors import ConfigError
from autoprox.export.targets import architecture_files
from autoprox.files.atomic import atomic_file, to_json, write_text
from autoprox.files.located_json import parse_json, read_json
from autoprox.files.program import command_line
from autoprox.runs.folder import Run, as_written
from autoprox.searchspaces import Architecture, ArchitectureError, get_space
from autoprox.searchspaces.swin import SwinSpace

S3 = "s3"
FORMS = "{space, choices}, an entry or the list of a search's top.json, or choices with --space"


def read_architecture(source: str, space: str | None = None) -> Architecture:
    """The architecture of a search's run, its best one, or of a JSON file or text."""
    if Path(source).is_dir():
        return _of_run(Path(source), space)
    if source.lstrip().startswith("{"):
        found = parse_json(source.encode(), "the JSON").plain()
    else:
        found = read_json(Path(source)).plain()
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and set(found) == {"space", "choices"}:
        space, found = _same(space, str(found["space"])), found["choices"]
    elif isinstance(found, dict) and isinstance(found.get("arch"), dict):
        found = found["arch"]
    if not isinstance(found, dict):
        raise ArchitectureError(f"an architecture must be {FORMS}, but got {to_json(found)[:60]}")
    if space is None:
        raise ConfigError("an architecture's choices need --space, but got none")
    return get_space(space).architecture(found)


def _of_run(path: Path, space: str | None) -> Architecture:
    """The best of a search; that of a search of the search space is in the last space."""
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
        within = get_space(_same(space, str(run.read_config()["space"])))
        found = summary["best"]["arch"]
        if run.kind == S3 and isinstance(within, SwinSpace):
            options = summary["rounds"][-1]["options"]
            within = within.with_options({name: tuple(own) for name, own in options.items()})
            found = found["choices"]
    return within.architecture(found)


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
