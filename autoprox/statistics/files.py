"""A statistic's file: the matrices of a network's layers, with a checksum; and folders of them."""

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol

import fsspec
from safetensors.numpy import save
from torch import Tensor

from autoprox.errors import ConfigError, FailureError, one_line
from autoprox.files.atomic_writes import atomic_file

CHECKSUM = "crc32"
BLOCK = 2**20  # bytes that are read at a time


class StorageError(FailureError):
    """Shared storage that can't be read or written."""


class Folder(Protocol):
    """Where files are written, by names of two parts."""

    def write(self, name: str, content: bytes) -> None: ...


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        """As a whole, or not at all."""
        place = self.path / name
        place.parent.mkdir(exist_ok=True)
        with atomic_file(place) as file:
            file.write(content)


@dataclass(frozen=True)
class SharedFolder:
    """A folder that several machines see, by whatever protocol fsspec knows: s3, gs, file."""

    url: str

    def __post_init__(self) -> None:
        try:
            fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            rule = "a cache must be a folder, or an URL that fsspec can open"
            raise ConfigError(f"{rule}, but of {self.url} it says: {one_line(error)}") from error

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            system, path = fsspec.core.url_to_fs(self.url)
            content: bytes = system.cat_file(f"{path}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:  # of whatever package speaks the protocol
            raise self._error(error) from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """A reader may meet half of it, which its checksum tells."""
        try:
            system, path = fsspec.core.url_to_fs(self.url)
            system.makedirs(f"{path}/{name}".rpartition("/")[0], exist_ok=True)
            system.pipe_file(f"{path}/{name}", content)
        except Exception as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StorageError:
        rule = "shared statistics must be readable and writable"
        return StorageError(f"{rule}, but of {self.url}: {one_line(error)}")


def encoded(matrices: Sequence[Tensor]) -> bytes:
    """The content of a statistic's file."""
    named = {f"{layer:05}": matrix.cpu().numpy() for layer, matrix in enumerate(matrices)}
    checksum = 0
    for values in named.values():  # which lie in this order in the file
        checksum = zlib.crc32(values.data, checksum)
    return bytes(save(named, metadata={CHECKSUM: str(checksum)}))


def is_whole(path: Path) -> bool:
    """Whether all of a statistic's file is as it was written: it is read once for that."""
    if not read_header(path):
        return False
    checksum = 0
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        known = json.loads(file.read(length))["__metadata__"]
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return bool(known == {CHECKSUM: str(checksum)})


def read_header(path: Path) -> list[tuple[int, tuple[int, int]]]:
    """Offset and shape of each matrix in a statistic's file; none where it is absent or broken.

    Read by hand, for safetensors gives no offsets, and maps files into memory.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = os.fstat(file.fileno()).st_size
            header = json.loads(file.read(min(length, size)))
        del header["__metadata__"]
        layers = [header[name] for name in sorted(header)]
        shapes = [(rows, cols) for rows, cols in (own["shape"] for own in layers)]
        spans = [tuple(own["data_offsets"]) for own in layers]
    except (AttributeError, FileNotFoundError, KeyError, RecursionError, TypeError, ValueError):
        return []
    if not all(type(n) is int and n >= 0 for shape in shapes for n in shape):
        return []
    # One matrix after the other, to the end of the file, as `encoded` has them.
    places = [*accumulate((4 * rows * cols for rows, cols in shapes), initial=0)]
    if spans != [*pairwise(places)] or 8 + length + places[-1] != size:
        return []
    return [(8 + length + place, shape) for place, shape in zip(places, shapes, strict=False)]
