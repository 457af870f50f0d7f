"""Where the engine reads matrices: kept for many formulas (`Store`) or measured once (`Fresh`)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from autoprox.errors import MeasurementError
from autoprox.language import Statistic
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture, Block
from autoprox.statistics.collector import CPU, Measured, Setting
from autoprox.statistics.matrices import Slab
from autoprox.statistics.packed import CHUNK, Chunk, Place, Shelf, chunks_of

T = TypeVar("T")

GIB = 2**30
Group = frozenset[Statistic]  # what one matrix expression reads: one domain, one kind of shape
MAX_FAILED = 0.1
CACHE_LIMIT = 20 * GIB  # bytes that a folder may hold beside what the store that opens it needs
LOCK = "lock"
UNFINISHED = ".part"


class Reduce(Protocol):
    """Takes matrices that stand at `positions` among the layers of their domain."""

    def __call__(
        self, group: Group, datasets: list[int], positions: np.ndarray, slab: Slab
    ) -> None: ...


@dataclass(frozen=True)
class LayerTable:
    """Which layers each network has: `domains[network]` in depth order, and its blocks."""

    domains: tuple[tuple[str, ...], ...]
    blocks: tuple[tuple[Block, ...], ...]

    def count(self, network: int, domain: str) -> int:
        if domain == "block":
            return len(self.blocks[network])
        return sum(domain in (d, "all") for d in self.domains[network])

    def starts(self, domain: str) -> np.ndarray:
        """[networks + 1]: where each network's layers begin when all are put in one row."""
        counts = [self.count(network, domain) for network in range(len(self.domains))]
        return np.concatenate([[0], np.cumsum(counts)])


class Source(ABC):
    """The untrained networks that are compared, and a way to read their matrices."""

    def __init__(
        self, setting: Setting, architectures: Sequence[Architecture], workers: int
    ) -> None:
        self.setting = setting
        self.architectures = tuple(architectures)
        self.datasets = tuple(setting.batches)
        self.workers = workers
        # Reductions are in float64, which MPS has not.
        self.device = CPU if setting.device.type == "mps" else setting.device
        self.failures: dict[int, str] = {}
        self.layers = self._layer_table()
        self._variants: dict[Group, list[list[int]]] = {}

    @property
    def alive(self) -> list[int]:
        """The networks that could be measured."""
        return [n for n in range(len(self.architectures)) if n not in self.failures]

    def variants(self, statistics: Iterable[Statistic]) -> list[list[int]]:
        """Datasets for which the statistics are the same, such as all of them for weights."""
        group = frozenset(statistics)
        if group not in self._variants:
            same: dict[frozenset[str], list[int]] = defaultdict(list)
            for index, dataset in enumerate(self.datasets):
                keys = (self.setting.key(self.architectures[0], dataset, s) for s in group)
                same[frozenset(keys)].append(index)
            self._variants[group] = list(same.values())
        return self._variants[group]

    @abstractmethod
    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        """Call `reduce` with every matrix that the groups need, in pieces, in any order."""

    def _layer_table(self) -> LayerTable:
        """A network that can't be built has no layers."""
        networks = range(len(self.architectures))
        found = [
            self._attempt(network, partial(self._structure, network)) or ((), ())
            for network in networks
        ]
        return LayerTable(tuple(d for d, _ in found), tuple(b for _, b in found))

    def _structure(self, network: int) -> tuple[tuple[str, ...], tuple[Block, ...]]:
        architecture = self.architectures[network]
        with torch.device("meta"):
            built = self.setting.space.build(architecture, classes=1)
        domains = tuple(domain for domain, _ in built.layers())
        return domains, self.setting.space.blocks(architecture)

    def _measured(
        self, network: int, needs: dict[str, set[Statistic]]
    ) -> Iterator[tuple[str, Measured]]:
        """Dataset after dataset, so that only one's matrices are held; ends where one fails."""
        steps = self.setting.measure(self.architectures[network], needs)
        while (step := self._attempt(network, partial(next, steps, None))) is not None:
            yield step
            del step

    def _attempt(self, network: int, call: Callable[[], T]) -> T | None:
        """None, with the reason on record, where the network fails."""
        try:
            return call()
        except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
            reason = str(error).strip().split("\n")[0] or "no message"
            self.failures[network] = f"{type(error).__name__}: {reason}"
            self._check_failures(error)
            return None

    def _check_failures(self, error: Exception) -> None:
        failed, total = len(self.failures), len(self.architectures)
        if failed > MAX_FAILED * total:
            reason = next(iter(self.failures.values()))
            raise MeasurementError(
                f"at most {MAX_FAILED:.0%} of the networks may fail, "
                f"but {failed} of {total} did: {reason}"
            ) from error


class Fresh(Source):
    """Builds and measures each network at every visit and keeps nothing: any size, few formulas."""

    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        visits = (partial(self._visit_network, n, groups, reduce) for n in self.alive)
        run_threads(self.workers, visits)

    def _visit_network(self, network: int, groups: Sequence[Group], reduce: Reduce) -> None:
        needs: dict[str, set[Statistic]] = defaultdict(set)
        for group in groups:
            for datasets in self.variants(group):
                needs[self.datasets[datasets[0]]] |= group
        for dataset, measured in self._measured(network, needs):
            for group in groups:
                for datasets in self.variants(group):
                    if self.datasets[datasets[0]] == dataset:
                        self._reduce_layers(network, group, datasets, measured, reduce)
            del measured

    def _reduce_layers(
        self,
        network: int,
        group: Group,
        datasets: list[int],
        measured: Measured,
        reduce: Reduce,
    ) -> None:
        start = self.layers.starts(next(iter(group)).domain)[network]
        for layer in range(len(measured[next(iter(group))])):
            slab = Slab.of({s: measured[s][layer][None].to(self.device) for s in group})
            reduce(group, datasets, np.array([start + layer]), slab)


class Store(Source):
    """Measures each network once and keeps the matrices, by shape, for any number of formulas.

    Every statistic of a network is a file in `folder`, named by the hash of what it depends on, so
    that a later store finds it. As many matrices as `memory` allows are resident, the others are
    read from their files at each visit. A store alone in its folder removes, before it measures,
    what was used the longest ago beyond `CACHE_LIMIT`.
    """

    def __init__(
        self,
        setting: Setting,
        architectures: Sequence[Architecture],
        needs: Iterable[Statistic],
        *,
        folder: Path,
        memory: int = 4 * GIB,
        workers: int = 1,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(setting, architectures, workers)
        self.folder = folder
        self.needs = sorted(set(needs), key=str)
        folder.mkdir(parents=True, exist_ok=True)
        weakref.finalize(self, os.close, _lock(folder, self._paths()))
        self._collect(progress)
        self._shelves = {
            (statistic, datasets[0]): self._index(statistic, datasets[0])
            for statistic in self.needs
            for datasets in self.variants([statistic])
        }
        self._load(memory)
        # glibc keeps freed blocks up to the largest yet freed; others cost new pages every time.
        torch.empty(2**24, dtype=torch.uint8)

    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        run_threads(self.workers, self._pieces(groups, reduce))

    def _pieces(self, groups: Sequence[Group], reduce: Reduce) -> Iterator[Callable[[], None]]:
        for group in groups:
            variants = self.variants(group)
            shelves = [[self._shelf(s, same[0]) for s in group] for same in variants]
            shapes = tuple(shelf.shapes for shelf in shelves[0])
            for chunk in chunks_of(shapes, CHUNK[self.device.type]):
                # What datasets share, such as weights, is still in cache for the next of them.
                for datasets, own in zip(variants, shelves, strict=True):
                    yield partial(self._piece, group, datasets, own, chunk, reduce)

    def _piece(
        self,
        group: Group,
        datasets: list[int],
        shelves: Sequence[Shelf],
        chunk: Chunk,
        reduce: Reduce,
    ) -> None:
        values = [shelf.read(chunk.start, chunk.stop).to(self.device) for shelf in shelves]
        slab = Slab.aligned(dict(zip(group, values, strict=True)), chunk.shapes)
        reduce(group, datasets, shelves[0].positions[chunk.start : chunk.stop], slab)

    def _shelf(self, statistic: Statistic, dataset: int) -> Shelf:
        variant = next(same for same in self.variants([statistic]) if dataset in same)
        return self._shelves[statistic, variant[0]]

    def _path(self, network: int, dataset: int, statistic: Statistic) -> Path:
        architecture = self.architectures[network]
        key = self.setting.key(architecture, self.datasets[dataset], statistic)
        return self.folder / key[:2] / key[2:]

    def _paths(self) -> set[Path]:
        return {
            self._path(network, dataset, statistic)
            for statistic in self.needs
            for dataset, *_ in self.variants([statistic])
            for network in self.alive
        }

    def _collect(self, progress: Callable[[], None]) -> None:
        def collect(network: int) -> None:
            missing: dict[str, set[Statistic]] = defaultdict(set)
            paths = {}
            for statistic in self.needs:
                for dataset, *_ in self.variants([statistic]):
                    path = self._path(network, dataset, statistic)
                    if _read_header(path):
                        os.utime(path)
                    else:
                        missing[self.datasets[dataset]].add(statistic)
                        paths[self.datasets[dataset], statistic] = path
            for name, measured in self._measured(network, missing) if missing else ():
                for statistic, matrices in measured.items():
                    _write(paths[name, statistic], matrices)
                del measured, matrices
            progress()

        run_threads(self.workers, (partial(collect, n) for n in self.alive))

    def _index(self, statistic: Statistic, dataset: int) -> Shelf:
        """With shapes in the order in which they occur: the same for aligned statistics."""
        found: dict[tuple[int, int], list[Place]] = defaultdict(list)
        starts = self.layers.starts(statistic.domain)
        for network in self.alive:
            path = self._path(network, dataset, statistic)
            header = _read_header(path)
            if len(header) != self.layers.count(network, statistic.domain):
                raise MeasurementError(f"{path} must stay as it was written: remove it")
            for layer, (offset, shape) in enumerate(header):
                found[shape].append(Place(int(starts[network]) + layer, path, offset))
        return Shelf(found)

    def _load(self, memory: int) -> None:
        for shelf in self._shelves.values():
            shelf.load(memory, self.device)
            memory -= shelf.resident_bytes


def _write(path: Path, matrices: list[Tensor]) -> None:
    """A line of JSON with the shapes, then the values; atomic, for others may use the folder."""
    path.parent.mkdir(exist_ok=True)
    header = json.dumps([list(matrix.shape) for matrix in matrices]).encode() + b"\n"
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=UNFINISHED, delete=False) as file:
        try:
            file.write(header)
            for matrix in matrices:
                file.write(matrix.cpu().numpy().data)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _read_header(path: Path) -> list[tuple[int, tuple[int, int]]]:
    """Offset and shape of each matrix in a statistic's file; none where it is absent or broken."""
    try:
        with path.open("rb") as file:
            header = file.readline()
            size = os.fstat(file.fileno()).st_size
        shapes = [(int(rows), int(cols)) for rows, cols in json.loads(header)]
    except (FileNotFoundError, TypeError, ValueError):
        return []
    sizes = [4 * rows * cols for rows, cols in shapes]
    offsets = list(accumulate(sizes, initial=len(header)))
    return list(zip(offsets, shapes, strict=False)) if offsets[-1] == size else []


def _lock(folder: Path, needed: Container[Path]) -> int:
    """Hold the folder together with other stores, after trimming it where there are none."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _trim(folder, needed)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _trim(folder: Path, needed: Container[Path]) -> None:
    """Remove unfinished files, and the least recently used of the others beyond the limit."""
    others = [path for path in folder.glob("??/*") if path not in needed]
    described = [(path.stat(), path) for path in others]
    total = 0
    for status, path in sorted(described, key=lambda item: item[0].st_mtime, reverse=True):
        total += status.st_size
        if total > CACHE_LIMIT or path.suffix == UNFINISHED:
            path.unlink()
