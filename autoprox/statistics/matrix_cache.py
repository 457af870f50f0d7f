"""Matrices that are measured once and cached in files, for any number of formulas."""

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
from autoprox.files.folder_checks import make_writable, require_free_bytes
from autoprox.language import Statistic
from autoprox.parallel.threads import run_threads
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.statistics.collector import MeasuredMatrices, MeasurementSetting
from autoprox.statistics.matrix_sources import (
    MEMO_BYTES,
    ExtraExpressions,
    MatrixSource,
    MeasureNetwork,
    Programs,
    StatisticGroup,
    Take,
)
from autoprox.statistics.packed_matrices import (
    CHUNK,
    ChunkRange,
    MatrixChunk,
    PackedMatrices,
    StoredMatrix,
    chunks_of,
)
from autoprox.statistics.statistic_files import (
    LocalStatisticFolder,
    SharedStatisticFolder,
    is_intact_statistic,
    read_statistic_header,
    statistic_to_safetensors,
)
from autoprox.statistics.untrained_networks import UntrainedNetwork

CACHE_LIMIT = 20 * 2**30  # bytes that a folder may hold besides what its current users need
CACHE_AGE = 90  # days after which unused files are removed
DAY = 86_400
CACHE_LOCK = "lock.db"
# The name of a statistic's file, complete or unfinished: a user's folder may hold other files.
STATISTIC_FILE = re.compile(r"[0-9a-f]{2}/\.?[0-9a-f]{62}(\.[0-9-]+\.part)?")
FETCH_THREADS = 16  # networks whose files are copied at once: that is waiting, not work

Packed = dict[tuple[Statistic, int], PackedMatrices]  # datasets may share them
Missing = dict[str, dict[Statistic, str]]  # names of files by dataset and statistic


class CachedMatrices(MatrixSource):
    """Every statistic of a network is a file, named by the hash of what it depends on.

    Later runs therefore find it, and if the folder is shared, other machines do too. As many
    matrices as `memory` allows are resident, an eighth of it set aside for layer values; the others
    are read from their files at each visit. The only user of a folder removes, before it measures,
    what wasn't used for `age` days, and the least recently used files beyond `limit`.
    """

    def __init__(
        self,
        setting: MeasurementSetting,
        networks: Sequence[UntrainedNetwork],
        needs: Iterable[Statistic],
        *,
        folder: Path,
        memory: int = 4 * 2**30,
        pool: WorkerPool = SINGLE_WORKER,
        shared: SharedStatisticFolder | None = None,
        limit: int = CACHE_LIMIT,
        age: int = CACHE_AGE,
    ) -> None:
        super().__init__(setting, networks, pool)
        self.folder = folder
        self.shared = shared
        self.memo = min(MEMO_BYTES, memory // 8)
        self.memory = memory - self.memo
        self.limit, self.age = limit, age
        self.needs = sorted(set(needs), key=str)
        self._locked = self._collected = False

    def collect(
        self, progress: Callable[[], None] = lambda: None, extra: ExtraExpressions | None = None
    ) -> None:
        """Measure what isn't in the folder, and extra expressions of the networks measured.

        `progress` is called after each network.
        """
        self.extra = extra
        if not self._locked:
            make_writable("the cache", "--cache", self.folder)
            needed = {path for n in self.measurable for path in self._paths(n).values()}
            weakref.finalize(self, _hold(self.folder, needed, self.limit, self.age).close)
            self._locked = True
        missing: dict[int, Missing] = {}

        def look(network: int) -> None:
            if found := self._find_absent(network):
                missing[network] = found
            else:
                progress()

        def fetch(network: int) -> None:
            if self._fetch(missing[network]):
                del missing[network]
                progress()

        run_threads(self.pool.workers, (partial(look, network) for network in self.measurable))
        if self.shared is not None:
            run_threads(FETCH_THREADS, [partial(fetch, network) for network in missing])
        self._measure({network: missing[network] for network in sorted(missing)}, progress)
        self._collected = True

    def visit(self, programs: Programs, take: Take) -> None:
        packed = self.packed  # on this thread, before others begin
        run_threads(self.pool.workers, self._pieces(packed, programs, take))

    def _pieces(self, kept: Packed, programs: Programs, take: Take) -> Iterator[Callable[[], None]]:
        def run(
            group: StatisticGroup,
            datasets: list[int],
            packed: Sequence[PackedMatrices],
            cut: ChunkRange,
        ) -> None:
            values = [own.read(cut.start, cut.stop).to(self.device) for own in packed]
            chunk = MatrixChunk.aligned(dict(zip(group, values, strict=True)), cut.shapes)
            take(group, datasets, packed[0].positions[cut.start : cut.stop], programs[group](chunk))

        for group in programs:
            variants = self.variants(group)
            packed = [[kept[s, same[0]] for s in group] for same in variants]
            shapes = tuple(own.shapes for own in packed[0])
            for cut in chunks_of(shapes, CHUNK[self.device.type]):
                # What datasets share, such as weights, is still in cache for the next of them.
                for datasets, own in zip(variants, packed, strict=True):
                    yield partial(run, group, datasets, own, cut)

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

    def _find_absent(self, network: int) -> Missing:
        """Find a network's files that are absent or broken; mark the others as used."""
        missing: Missing = defaultdict(dict)
        for (dataset, statistic), path in self._paths(network).items():
            if is_intact_statistic(path):
                os.utime(path)
            else:
                missing[dataset][statistic] = f"{path.parent.name}/{path.name}"
        return missing

    def _fetch(self, missing: Missing) -> bool:
        """Copy a network's missing files from the shared folder; returns whether all were there."""
        for name in (name for named in missing.values() for name in named.values()):
            content = None if self.shared is None else self.shared.read(name)
            if content is None:
                return False
            LocalStatisticFolder(self.folder).write(name, content)
            if not is_intact_statistic(self.folder / name):
                return False
        return True

    def _measure(self, missing: Mapping[int, Missing], progress: Callable[[], None]) -> None:
        """Measure what is missing; a cluster's workers leave it in the shared folder, if any."""
        local, shared = LocalStatisticFolder(self.folder), [self.shared] if self.shared else []
        remote = self.pool.scheduler is not None
        folders: list[LocalStatisticFolder | SharedStatisticFolder] = (
            [*shared] if remote else [local, *shared]
        )
        numbers, sizes = iter(missing), list[int]()

        def take(found: _Measurement) -> None:
            network = next(numbers)
            for name, content in found.contents.items():
                local.write(name, content)
            if remote and shared and not found.failure and not self._fetch(missing[network]):
                raise MeasurementError(f"what workers write must be at {shared[0].url}, but isn't")
            self._keep_extra(network, found.extra)
            self.fail(network, found.failure)
            sizes.append(found.bytes)
            require_free_bytes(self.folder, sum(sizes) // len(sizes) * (len(missing) - len(sizes)))
            progress()

        items = [(self.networks[n], own, self._measure_network(n)) for n, own in missing.items()]
        self.pool.each(_write_measured, items, take, self.setting, folders)

    @cached_property
    def packed(self) -> Packed:
        """The matrices, read at the first visit, after the networks were measured."""
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
        # threshold, mallopt(3)): the buffers of chunks would otherwise be mapped and cleared again.
        torch.empty(2**24, dtype=torch.uint8)
        return found

    def _index(self, statistic: Statistic, dataset: int) -> PackedMatrices:
        """Index matrices by shape in the order of occurrence: the same for aligned statistics."""
        found: dict[tuple[int, int], list[StoredMatrix]] = defaultdict(list)
        starts = self.layers.starts[statistic.domain]
        for network in self.measurable:
            path = self._path(network, dataset, statistic)
            header = read_statistic_header(path)
            if len(header) != self.layers.count(network, statistic.domain):
                raise MeasurementError(f"{path} must stay as it was written: remove it")
            for layer, (offset, shape) in enumerate(header):
                found[shape].append(StoredMatrix(int(starts[network]) + layer, path, offset))
        return PackedMatrices(found)


class _Measurement(NamedTuple):
    """The measured matrices of a network, and why it failed, if it did."""

    contents: dict[str, bytes]  # of its files, unless the worker has written them
    bytes: int
    failure: str | None
    extra: Any


def _write_measured(
    setting: MeasurementSetting,
    folders: Sequence[LocalStatisticFolder | SharedStatisticFolder],
    item: tuple[UntrainedNetwork, Missing, MeasureNetwork],
) -> _Measurement:
    """Measure a network's missing statistics and write them to the folders, or return them."""
    network, missing, measure = item
    contents: dict[str, bytes] = {}
    sizes: list[int] = []

    def write(dataset: str, measured: MeasuredMatrices) -> None:
        for statistic, matrices in measured.items():
            name, content = missing[dataset][statistic], statistic_to_safetensors(matrices)
            sizes.append(len(content))
            for folder in folders:
                folder.write(name, content)
            if not folders:
                contents[name] = content

    needs = {dataset: set(named) for dataset, named in missing.items()}
    failure, extra = measure(setting, network, needs, write)
    return _Measurement(contents, sum(sizes), failure, extra)


def _hold(folder: Path, needed: Container[Path], limit: int, age: int) -> ReadWriteLock:
    """Hold the folder together with other users, after trimming it if there are none."""
    lock = ReadWriteLock(folder / CACHE_LOCK, is_singleton=False)
    _trim_alone(lock, folder, limit, age, needed)  # otherwise the others do, once they are alone
    lock.acquire_read()
    return lock


def trim_statistic_cache(folder: Path, limit: int = 0, age: int = 0) -> None:
    """Remove the files beyond limit and age from a folder that is not in use."""
    if not folder.is_dir():
        return
    lock = ReadWriteLock(folder / CACHE_LOCK, is_singleton=False)
    try:
        if not _trim_alone(lock, folder, limit, age):
            raise RunError(f"a cache must not be in use to be cleared, but {folder} is")
    finally:
        lock.close()


def _trim_alone(
    lock: ReadWriteLock, folder: Path, limit: int, age: int, needed: Container[Path] = ()
) -> bool:
    """Remove unfinished and superfluous files, unless the folder is in use: then return False."""
    try:
        with lock.write_lock(blocking=False):
            unfinished = [path for path in _statistic_files(folder) if path.suffix == UNFINISHED]
            for path in (*unfinished, *expired_cache_files(folder, limit, age, needed)):
                path.unlink(missing_ok=True)
    except Timeout as busy:
        # filelock's frames hold their own error, and so all callers, until a garbage collection.
        traceback.clear_frames(busy.__traceback__)
        return False
    return True


def expired_cache_files(
    folder: Path, limit: int, age: int, needed: Container[Path] = ()
) -> dict[Path, int]:
    """Return the sizes of files unused for `age` days and of the oldest beyond `limit` bytes."""
    files = [(path.stat(), path) for path in _statistic_files(folder) if path not in needed]
    found: dict[Path, int] = {}
    total, oldest = 0, time.time() - age * DAY
    for status, path in sorted(files, key=lambda item: item[0].st_mtime, reverse=True):
        total += status.st_size
        if total > limit or status.st_mtime < oldest:
            found[path] = status.st_size
    return found


def _statistic_files(folder: Path) -> list[Path]:
    found = folder.glob("??/*")
    return [path for path in found if STATISTIC_FILE.fullmatch(path.relative_to(folder).as_posix())]
