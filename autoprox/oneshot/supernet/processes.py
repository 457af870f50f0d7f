"""Several processes that train together: plain torch.distributed, on as many GPUs or on the CPU."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

from autoprox.errors import MeasurementError
from autoprox.files.atomic_writes import UNFINISHED
from autoprox.oneshot.supernet.training import Place
from autoprox.parallel.worker_pool import follow_parent, interrupts_held

Report = Callable[[int, float], None]
Work = Callable[..., None]  # of place, device and report, then of what it is given


def unheard(epoch: int, loss: float) -> None:
    """Report nothing: only the first process does."""


def run_together(
    processes: int, device: str, folder: Path, report: Report, work: Work, *arguments: Any
) -> None:
    """Do `work(place, device, report, *arguments)` here and in so many processes less one.

    It has to be a function that a new process can import. They meet by a file in the folder.
    """
    if processes == 1:
        work(Place(), device, report, *arguments)
        return
    meeting = folder / f".meeting.{os.getpid()}{UNFINISHED}"
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(
            target=_follow,
            args=(os.getpid(), Place(rank, processes), meeting, device, unheard, work, arguments),
        )
        for rank in range(1, processes)
    ]
    with interrupts_held():
        for other in others:
            other.daemon = True  # it ends with this process
            other.start()
    try:
        _join(Place(0, processes), meeting, device, report, work, arguments, others)
        for other in others:
            other.join()
    finally:
        meeting.unlink(missing_ok=True)
    if any(other.exitcode for other in others):
        codes = [other.exitcode for other in others]
        raise MeasurementError(f"all processes must end well, but the others' codes are {codes}")


def _follow(parent: int, *arguments: Any) -> None:
    """Join, and end with the parent, also where that is killed."""
    follow_parent(parent)
    _join(*arguments)
    # A thread of gloo that hasn't ended would abort the process at its end.
    os._exit(0)


def _join(
    place: Place,
    meeting: Path,
    device: str,
    report: Report,
    work: Work,
    arguments: tuple[Any, ...],
    others: Sequence[BaseProcess] = (),
) -> None:
    own = f"cuda:{place.rank}" if device == "cuda" else device
    if device == "cuda":
        torch.cuda.set_device(place.rank)
    with _group(place, meeting, "nccl" if device == "cuda" else "gloo"):
        try:
            work(place, own, report, *arguments)
        except BaseException:
            for other in others:  # or they would tell that they were left alone
                other.kill()
            raise


@contextmanager
def _group(place: Place, meeting: Path, backend: str) -> Iterator[None]:
    # Not by a URL, which would take the first folder of a relative path for a host.
    store = distributed.FileStore(str(meeting), place.processes)  # type: ignore[attr-defined]
    distributed.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.processes
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()
