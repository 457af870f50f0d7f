"""Matrices that are measured once and kept, by shape, for any number of formulas."""

import os
import re
import time
import traceback
import weakref
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import ReadWriteLock, Timeout

from autoprox.errors import MeasurementError, RunError
from autoprox.files.atomic_writes import UNFINISHED
from autoprox.files.folders import make_writable, require_free_bytes
from autoprox.language import Statistic
from autoprox.parallel.crew import ALONE, Crew
from autoprox.parallel.threads import run_threads
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.collector import Measured, Setting
from autoprox.statistics.files import (
    Folder,
    LocalFolder,
    SharedFolder,
    encoded,
    is_whole,
    read_header,
)
from autoprox.statistics.networks import UntrainedNetwork
from autoprox.statistics.packed import CHUNK, ChunkRange, PackedMatrices, Place, chunks_of
from autoprox.statistics.sources import (
    MEMO_BYTES,
    Along,
    Group,
    MatrixSource,
    MeasureAlong,
    Programs,
    Take,
    measured_alone,
    wants_along,
)

GIB = 2**30
CACHE_LIMIT = 20 * GIB  # bytes that a folder may hold beside what those who open it need
CACHE_AGE = 90  # days after which what wasn't used goes
DAY = 86_400
LOCK = "lock.db"
# Of a statistic's file, whole or unfinished: in a folder of somebody's choice may be other files.
OWN = re.compile(r"[0-9a-f]{2}/\.?[0-9a-f]{62}(\.[0-9-]+\.part)?")
FETCHING = 16  # networks whose files are copied at once: that is waiting, not work

Packed = dict[tuple[Statistic, int], PackedMatrices]  # datasets may share them
Missing = dict[str, dict[Statistic, str]]  # names of files by dataset and statistic


class CachedMatrices(MatrixSource):
    """Every statistic of a network is a file, named by the hash of what it depends on.

    So what comes later finds it, and where a folder is shared, other machines do. As many matrices
    as `memory` allows are resident, an eighth of it set aside for values of layers; the others are
    read from their files at each visit. Who is alone in the folder removes, before it measures,
    what wasn't used for `age` days, and what was used the longest ago beyond `limit`.
    """

    def __init__(
        self,
        setting: Setting,
        networks: Sequence[UntrainedNetwork],
        needs: Iterable[Statistic],
        *,
        folder: Path,
        memory: int = 4 * GIB,
        crew: Crew = ALONE,
        shared: SharedFolder | None = None,
        limit: int = CACHE_LIMIT,
        age: int = CACHE_AGE,
    ) -> None:
        super().__init__(setting, networks, crew)
        self.folder = folder
        self.shared = shared
        self.memo = min(MEMO_BYTES, memory // 8)
        self.memory = memory - self.memo
        self.limit, self.age = limit, age
        self.needs = sorted(set(needs), key=str)
        self._locked = self._collected = False

    def collect(
        self, progress: Callable[[], None] = lambda: None, along: Along | None = None
    ) -> None:
        """Measure what isn't in the folder, and with it what is wanted along.

        `progress` is called after each network.
        """
        if not self._locked:
            make_writable("the cache", "--cache", self.folder)
            needed = {path for n in self.alive for path in self._paths(n).values()}
            weakref.finalize(self, _hold(self.folder, needed, self.limit, self.age).close)
            self._locked = True
        missing = self._missing(progress)
        if self.shared is not None:
            missing = self._fetched(missing, progress)
        self._measure(missing, progress, along)
        self._collected = True

    def visit(self, programs: Programs, take: Take) -> None:
        packed = self.packed  # on this thread, before others begin
        run_threads(self.crew.workers, self._pieces(packed, programs, take))

    def _pieces(self, kept: Packed, programs: Programs, take: Take) -> Iterator[Callable[[], None]]:
        for group in programs:
            variants = self.variants(group)
            packed = [[kept[s, same[0]] for s in group] for same in variants]
            shapes = tuple(own.shapes for own in packed[0])
            for cut in chunks_of(shapes, CHUNK[self.device.type]):
                # What datasets share, such as weights, is still in cache for the next of them.
                for datasets, own in zip(variants, packed, strict=True):
                    yield partial(self._piece, group, datasets, own, cut, programs[group], take)

    def _piece(
        self,
        group: Group,
        datasets: list[int],
        packed: Sequence[PackedMatrices],
        cut: ChunkRange,
        program: Callable[[MatrixChunk], Any],
        take: Take,
    ) -> None:
        values = [own.read(cut.start, cut.stop).to(self.device) for own in packed]
        chunk = MatrixChunk.aligned(dict(zip(group, values, strict=True)), cut.shapes)
        take(group, datasets, packed[0].positions[cut.start : cut.stop], program(chunk))

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

    def _missing(self, progress: Callable[[], None]) -> dict[int, Missing]:
        """Of each network the files that aren't in the folder, or not whole; others are in use."""
        found: dict[int, Missing] = {}

        def look(network: int) -> None:
            missing: Missing = defaultdict(dict)
            for (dataset, statistic), path in self._paths(network).items():
                if is_whole(path):
                    os.utime(path)
                else:
                    missing[dataset][statistic] = f"{path.parent.name}/{path.name}"
            if missing:
                found[network] = missing
            else:
                progress()

        run_threads(self.crew.workers, (partial(look, network) for network in self.alive))
        return {network: found[network] for network in sorted(found)}

    def _fetch(self, missing: Missing) -> bool:
        """Copy what is missing of a network from the shared folder; whether all of it was there."""
        for name in (name for named in missing.values() for name in named.values()):
            content = None if self.shared is None else self.shared.read(name)
            if content is None:
                return False
            LocalFolder(self.folder).write(name, content)
            if not is_whole(self.folder / name):
                return False
        return True

    def _fetched(
        self, missing: Mapping[int, Missing], progress: Callable[[], None]
    ) -> dict[int, Missing]:
        """Copy what others have measured; returns what is missing still."""
        lacking: dict[int, Missing] = {}

        def fetch(network: int) -> None:
            if self._fetch(missing[network]):
                progress()
            else:
                lacking[network] = missing[network]

        run_threads(FETCHING, (partial(fetch, network) for network in missing))
        return {network: lacking[network] for network in sorted(lacking)}

    def _measure(
        self, missing: Mapping[int, Missing], progress: Callable[[], None], along: Along | None
    ) -> None:
        """Measure what is missing; a cluster's workers leave it in the shared folder, if any."""
        local, shared = LocalFolder(self.folder), [self.shared] if self.shared else []
        away = self.crew.scheduler is not None
        folders: list[Folder] = [*shared] if away else [local, *shared]
        numbers, sizes = iter(missing), list[int]()

        def take(found: Measurement) -> None:
            network = next(numbers)
            for name, content in found.contents.items():
                local.write(name, content)
            if away and shared and not found.failure and not self._fetch(missing[network]):
                raise MeasurementError(f"what workers write must be at {shared[0].url}, but isn't")
            if along is not None and found.along is not None:
                along.keep(self.networks[network], found.along)
            self.fail(network, found.failure)
            sizes.append(found.bytes)
            require_free_bytes(self.folder, sum(sizes) // len(sizes) * (len(missing) - len(sizes)))
            progress()

        items = [
            (self.networks[network], own, wants_along(along, self.networks[network]))
            for network, own in missing.items()
        ]
        self.crew.each(_measured, items, take, self.setting, folders)

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
            header = read_header(path)
            if len(header) != self.layers.count(network, statistic.domain):
                raise MeasurementError(f"{path} must stay as it was written: remove it")
            for layer, (offset, shape) in enumerate(header):
                found[shape].append(Place(int(starts[network]) + layer, path, offset))
        return PackedMatrices(found)


class Measurement(NamedTuple):
    """What was measured of a network, and why it failed, if it did."""

    contents: dict[str, bytes]  # of its files, where they aren't written by who measures
    bytes: int
    failure: str | None
    along: Any


def _measured(
    setting: Setting,
    folders: Sequence[Folder],
    item: tuple[UntrainedNetwork, Missing, MeasureAlong | None],
) -> Measurement:
    """Measure what is missing of a network into these folders, or bring it where there are none."""
    network, missing, along = item
    contents: dict[str, bytes] = {}
    sizes: list[int] = []

    def write(dataset: str, measured: Measured) -> None:
        for statistic, matrices in measured.items():
            name, content = missing[dataset][statistic], encoded(matrices)
            sizes.append(len(content))
            for folder in folders:
                folder.write(name, content)
            if not folders:
                contents[name] = content

    needs = {dataset: set(named) for dataset, named in missing.items()}
    failure, more = (along or measured_alone)(setting, network, needs, write)
    return Measurement(contents, sum(sizes), failure, more)


def _hold(folder: Path, needed: Container[Path], limit: int, age: int) -> ReadWriteLock:
    """Hold the folder together with others, after trimming it where there are none."""
    lock = ReadWriteLock(folder / LOCK, is_singleton=False)
    try:
        with lock.write_lock(blocking=False):
            remove(folder, limit, age, needed)
    except Timeout as busy:  # others trim it once they are alone
        # filelock's frames hold their own error, and so all callers, until a garbage collection.
        traceback.clear_frames(busy.__traceback__)
    lock.acquire_read()
    return lock


def clear(folder: Path, limit: int = 0, age: int = 0) -> None:
    """Remove what is beyond limit and age from a folder, of which nobody may be reading."""
    if not folder.is_dir():
        return
    lock = ReadWriteLock(folder / LOCK, is_singleton=False)
    try:
        with lock.write_lock(blocking=False):
            remove(folder, limit, age)
    except Timeout as busy:
        traceback.clear_frames(busy.__traceback__)
        raise RunError(f"a cache must not be in use to be cleared, but {folder} is") from None
    finally:
        lock.close()


def remove(folder: Path, limit: int, age: int, needed: Container[Path] = ()) -> None:
    """Remove unfinished files, and those that `superfluous` names."""
    unfinished = [path for path in _own(folder) if path.suffix == UNFINISHED]
    for path in (*unfinished, *superfluous(folder, limit, age, needed)):
        path.unlink(missing_ok=True)


def _own(folder: Path) -> list[Path]:
    """The statistics' files in a folder."""
    found = folder.glob("??/*")
    return [path for path in found if OWN.fullmatch(path.relative_to(folder).as_posix())]


def superfluous(
    folder: Path, limit: int, age: int, needed: Container[Path] = ()
) -> dict[Path, int]:
    """Sizes of files not used for so many days, and of the least recently used beyond the limit."""
    described = [(path.stat(), path) for path in _own(folder) if path not in needed]
    found: dict[Path, int] = {}
    total, oldest = 0, time.time() - age * DAY
    for status, path in sorted(described, key=lambda item: item[0].st_mtime, reverse=True):
        total += status.st_size
        if total > limit or status.st_mtime < oldest:
            found[path] = status.st_size
    return found
