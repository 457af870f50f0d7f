"""Files of measured statistics, a network's matrices with a checksum, and folders of them."""

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import fsspec
from safetensors.numpy import save
from torch import Tensor

from autoprox.errors import ConfigError, FailureError, one_line
from autoprox.files.atomic_writes import atomic_file

CHECKSUM = "crc32"
READ_SIZE = 2**20  # bytes that are read at a time


class StorageError(FailureError):
    """Shared storage that can't be read or written."""


@dataclass(frozen=True)
class LocalStatisticFolder:
    """A folder on this machine, whose files have names of two parts."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        """Write the whole file or nothing."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        with atomic_file(path) as file:
            file.write(content)


@dataclass(frozen=True)
class SharedStatisticFolder:
    """A folder shared by several machines, with any protocol that fsspec supports: s3, gs, file."""

    url: str

    def __post_init__(self) -> None:
        try:
            fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            rule = "a cache must be a folder, or an URL that fsspec can open"
            raise ConfigError(f"{rule}, but of {self.url} it says: {one_line(error)}") from error

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            system, path = fsspec.core.url_to_fs(self.url)
            content: bytes = system.cat_file(f"{path}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:  # from the package that implements the protocol
            raise self._error(error) from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file; a reader may see half of it, which the checksum reveals."""
        try:
            system, path = fsspec.core.url_to_fs(self.url)
            system.makedirs(f"{path}/{name}".rpartition("/")[0], exist_ok=True)
            system.pipe_file(f"{path}/{name}", content)
        except Exception as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StorageError:
        rule = "shared statistics must be readable and writable"
        return StorageError(f"{rule}, but of {self.url}: {one_line(error)}")


def statistic_to_safetensors(matrices: Sequence[Tensor]) -> bytes:
    """Return the content of a statistic's file."""
    named = {f"{layer:05}": matrix.cpu().numpy() for layer, matrix in enumerate(matrices)}
    checksum = 0
    for values in named.values():  # in the order of the file
        checksum = zlib.crc32(values.data, checksum)
    return bytes(save(named, metadata={CHECKSUM: str(checksum)}))


def is_intact_statistic(path: Path) -> bool:
    """Return whether a statistic's file is as it was written, by reading all of it."""
    if not read_statistic_header(path):
        return False
    checksum = 0
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        known = json.loads(file.read(length))["__metadata__"]
        while block := file.read(READ_SIZE):
            checksum = zlib.crc32(block, checksum)
    return bool(known == {CHECKSUM: str(checksum)})


def read_statistic_header(path: Path) -> list[tuple[int, tuple[int, int]]]:
    """Return offset and shape of each matrix in a statistic's file; [] if it is absent or broken.

    safetensors gives no offsets, and maps files into memory.
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
    # `statistic_to_safetensors` writes one matrix after the other, up to the end of the file.
    offsets = [*accumulate((4 * rows * cols for rows, cols in shapes), initial=0)]
    if spans != [*pairwise(offsets)] or 8 + length + offsets[-1] != size:
        return []
    return [(8 + length + offset, shape) for offset, shape in zip(offsets, shapes, strict=False)]
