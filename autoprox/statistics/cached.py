"""Matrices that are measured once and kept, by shape, for any number of formulas."""

import json
import os
import re
import traceback
import weakref
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from filelock import ReadWriteLock, Timeout
from safetensors.numpy import save
from torch import Tensor

from autoprox.errors import MeasurementError, RunError
from autoprox.files.atomic import UNFINISHED, atomic_file
from autoprox.language import Statistic
from autoprox.parallel.threads import run_threads
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import UntrainedNetwork
from autoprox.statistics.packed import CHUNK, ChunkRange, PackedMatrices, Place, chunks_of
from autoprox.statistics.sources import Group, MatrixSource, Reduce

GIB = 2**30
CACHE_LIMIT = 20 * GIB  # bytes that a folder may hold beside what those who open it need
LOCK = "lock.db"
CHECKSUM = "crc32"
BLOCK = 2**20  # bytes that are read at a time
# Of a statistic's file, whole or unfinished: in a folder of somebody's choice may be other files.
OWN = re.compile(r"[0-9a-f]{2}/\.?[0-9a-f]{62}(\.[0-9-]+\.part)?")

Packed = dict[tuple[Statistic, int], PackedMatrices]  # datasets may share them


class CachedMatrices(MatrixSource):
    """Every statistic of a network is a file, named by the hash of what it depends on.

    So what comes later finds it. As many matrices as `memory` allows are resident, the others are
    read from their files at each visit. Who is alone in the folder removes, before it measures,
    what was used the longest ago beyond `CACHE_LIMIT`.
    """

    def __init__(
        self,
        setting: Setting,
        networks: Sequence[UntrainedNetwork],
        needs: Iterable[Statistic],
        *,
        folder: Path,
        memory: int = 4 * GIB,
        workers: int = 1,
    ) -> None:
        super().__init__(setting, networks, workers)
        self.folder = folder
        self.memory = memory
        self.needs = sorted(set(needs), key=str)
        self._locked = self._collected = False

    def collect(self, progress: Callable[[], None] = lambda: None) -> None:
        """Measure what isn't in the folder; `progress` is called after each network."""
        if not self._locked:
            self.folder.mkdir(parents=True, exist_ok=True)
            needed = {path for n in self.alive for path in self._paths(n).values()}
            weakref.finalize(self, _hold(self.folder, needed).close)
            self._locked = True
        run_threads(self.workers, (partial(self._collect, n, progress) for n in self.alive))
        self._collected = True

    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        packed = self.packed  # on this thread, before others begin
        run_threads(self.workers, self._pieces(packed, groups, reduce))

    def _pieces(
        self, kept: Packed, groups: Sequence[Group], reduce: Reduce
    ) -> Iterator[Callable[[], None]]:
        for group in groups:
            variants = self.variants(group)
            packed = [[kept[s, same[0]] for s in group] for same in variants]
            shapes = tuple(own.shapes for own in packed[0])
            for cut in chunks_of(shapes, CHUNK[self.device.type]):
                # What datasets share, such as weights, is still in cache for the next of them.
                for datasets, own in zip(variants, packed, strict=True):
                    yield partial(self._piece, group, datasets, own, cut, reduce)

    def _piece(
        self,
        group: Group,
        datasets: list[int],
        packed: Sequence[PackedMatrices],
        cut: ChunkRange,
        reduce: Reduce,
    ) -> None:
        values = [own.read(cut.start, cut.stop).to(self.device) for own in packed]
        chunk = MatrixChunk.aligned(dict(zip(group, values, strict=True)), cut.shapes)
        reduce(group, datasets, packed[0].positions[cut.start : cut.stop], chunk)

    def _path(self, network: int, dataset: int, statistic: Statistic) -> Path:
        key = self.setting.key(self.networks[network], self.datasets[dataset], statistic)
        return self.folder / key[:2] / key[2:]

    def _paths(self, network: int) -> dict[tuple[str, Statistic], Path]:
        return {
            (self.datasets[dataset], statistic): self._path(network, dataset, statistic)
            for statistic in self.needs
            if self.layers.count(network, statistic.domain)
            for dataset, *_ in self.variants([statistic])
        }

    def _collect(self, network: int, progress: Callable[[], None]) -> None:
        missing: dict[str, set[Statistic]] = defaultdict(set)
        paths = self._paths(network)
        for (dataset, statistic), path in paths.items():
            if _is_whole(path):
                os.utime(path)
            else:
                missing[dataset].add(statistic)
        for name, measured in self._measured(network, missing) if missing else ():
            for statistic, matrices in measured.items():
                _write(paths[name, statistic], matrices)
            del measured, matrices
        progress()

    @cached_property
    def packed(self) -> Packed:
        """Read at the first visit, after the networks were measured."""
        if not self._collected:
            self.collect()
        found: Packed = {}
        memory = self.memory
        for statistic in self.needs:
            for datasets in self.variants([statistic]):
                packed = self._index(statistic, datasets[0])
                packed.load(memory, self.device)
                memory -= packed.resident_bytes
                found |= {(statistic, dataset): packed for dataset in datasets}
        # Once a block of this size was freed, glibc keeps smaller ones for reuse (dynamic mmap
        # threshold, mallopt(3)): the buffers of chunks would otherwise be mapped and cleared anew.
        torch.empty(2**24, dtype=torch.uint8)
        return found

    def _index(self, statistic: Statistic, dataset: int) -> PackedMatrices:
        """With shapes in the order in which they occur: the same for aligned statistics."""
        found: dict[tuple[int, int], list[Place]] = defaultdict(list)
        starts = self.layers.starts[statistic.domain]
        for network in self.alive:
            path = self._path(network, dataset, statistic)
            header = _read_header(path)
            if len(header) != self.layers.count(network, statistic.domain):
                raise MeasurementError(f"{path} must stay as it was written: remove it")
            for layer, (offset, shape) in enumerate(header):
                found[shape].append(Place(int(starts[network]) + layer, path, offset))
        return PackedMatrices(found)


def _write(path: Path, matrices: list[Tensor]) -> None:
    path.parent.mkdir(exist_ok=True)
    named = {f"{layer:05}": matrix.cpu().numpy() for layer, matrix in enumerate(matrices)}
    checksum = 0
    for values in named.values():  # which lie in this order in the file
        checksum = zlib.crc32(values.data, checksum)
    with atomic_file(path) as file:
        file.write(save(named, metadata={CHECKSUM: str(checksum)}))


def _is_whole(path: Path) -> bool:
    """Whether all of a statistic's file is as it was written: it is read once for that."""
    if not _read_header(path):
        return False
    checksum = 0
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        known = json.loads(file.read(length))["__metadata__"]
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return bool(known == {CHECKSUM: str(checksum)})


def _read_header(path: Path) -> list[tuple[int, tuple[int, int]]]:
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
    # One matrix after the other, to the end of the file, as `_write` has them.
    places = [*accumulate((4 * rows * cols for rows, cols in shapes), initial=0)]
    if spans != [*pairwise(places)] or 8 + length + places[-1] != size:
        return []
    return [(8 + length + place, shape) for place, shape in zip(places, shapes, strict=False)]


def _hold(folder: Path, needed: Container[Path]) -> ReadWriteLock:
    """Hold the folder together with others, after trimming it where there are none."""
    lock = ReadWriteLock(folder / LOCK, is_singleton=False)
    try:
        with lock.write_lock(blocking=False):
            _trim(folder, needed)
    except Timeout as busy:  # others trim it once they are alone
        # filelock's frames hold their own error, and so all callers, until a garbage collection.
        traceback.clear_frames(busy.__traceback__)
    lock.acquire_read()
    return lock


def clear(folder: Path) -> None:
    """Remove all that is measured in a folder, of which nobody may be reading."""
    if not folder.is_dir():
        return
    lock = ReadWriteLock(folder / LOCK, is_singleton=False)
    try:
        with lock.write_lock(blocking=False):
            for path in _own(folder):
                path.unlink()
    except Timeout as busy:
        traceback.clear_frames(busy.__traceback__)
        raise RunError(f"a cache must not be in use to be cleared, but {folder} is") from None
    finally:
        lock.close()


def _own(folder: Path) -> list[Path]:
    """The statistics' files in a folder."""
    found = folder.glob("??/*")
    return [path for path in found if OWN.fullmatch(path.relative_to(folder).as_posix())]


def _trim(folder: Path, needed: Container[Path]) -> None:
    """Remove unfinished files, and the least recently used of the others beyond the limit."""
    others = [path for path in _own(folder) if path not in needed]
    described = [(path.stat(), path) for path in others]
    total = 0
    for status, path in sorted(described, key=lambda item: item[0].st_mtime, reverse=True):
        total += status.st_size
        if total > CACHE_LIMIT or path.suffix == UNFINISHED:
            path.unlink()
