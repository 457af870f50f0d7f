"""Files written whole or not at all: a reader, or a kill at any moment, never meets half of one."""

import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

UNFINISHED = ".part"  # how the name of a file ends until it is whole


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write, which takes its place when all of it is on the disk.

    An error before that leaves what was there, and no other file.
    """
    writer = f"{os.getpid()}-{threading.get_ident()}"
    temporary = path.with_name(f".{path.name}.{writer}{UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder of these files, by path below it, in place of what was there.

    An error before all of it is on the disk leaves what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED
    ) as temporary:
        new, old = Path(temporary, "new"), Path(temporary, "old")
        for name, content in contents.items():
            file = new / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as output:
                output.write(content)
                os.fsync(output.fileno())
        if os.path.lexists(path):
            os.replace(path, old)
        os.replace(new, path)


def remove_unfinished_files(folder: Path) -> None:
    """Remove what kills left below a folder, in which nobody else is writing."""
    for path in folder.rglob(f".*{UNFINISHED}"):
        path.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text as a whole, in UTF-8."""
    with atomic_file(path) as file:
        file.write(_encoded(text))


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON for people to read."""
    write_text(path, f"{to_json(value, indent=2)}\n")


def json_line(value: Any) -> bytes:
    """A line of a file of JSON."""
    return _encoded(f"{to_json(value)}\n")


def _encoded(text: str) -> bytes:
    """UTF-8; names of files that aren't have lone surrogates, which are spelt out, as in JSON."""
    return text.encode(errors="backslashreplace")


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON text; numpy values and paths become plain, NaN and infinity raise ValueError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no JSON form for a {type(value).__name__}: {value!r}")
