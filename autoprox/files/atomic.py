"""Files written whole or not at all: a reader, or a kill at any moment, never meets half of one."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON text; numpy values and paths become plain, NaN and infinity raise ValueError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent, default=_plain)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON for people to read."""
    write_bytes(path, f"{to_json(value, indent=2)}\n".encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, to the disk, and rename; what fails leaves none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no JSON form for a {type(value).__name__}: {value!r}")
