"""Pools of workers for independent calls: threads or processes here, or a dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

from autoprox.parallel import dask_cluster
from autoprox.parallel.threads import run_threads

T = TypeVar("T")
R = TypeVar("R")
PARENT_CHECK_INTERVAL = 1.0  # seconds


@dataclass(frozen=True)
class WorkerPool:
    """A number of workers on this machine, or the workers of a dask scheduler.

    Every call uses one thread of torch, so that results don't depend on which worker runs it. A
    scheduler's workers can be used inside `with pool`.
    """

    workers: int = 1
    scheduler: str | None = None

    @property
    def size(self) -> int:
        """The number of calls that run at the same time."""
        return (
            self.workers if self.scheduler is None else dask_cluster.count_workers(self.scheduler)
        )

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[T],
        take: Callable[[R], None],
        *shared: object,
        processes: bool = False,
    ) -> None:
        """Pass the results of `function(*shared, item)` to `take`, in the order of the items.

        `shared` is sent once to each worker of a scheduler. On this machine, the calls run on
        threads, or on `processes` if much of them is Python; after an error no further call begins.
        """
        calls = (partial(function, *shared, item) for item in items)
        if self.scheduler is not None:
            results = dask_cluster.run_calls_on_dask(self.scheduler, function, items, shared)
        elif processes:
            results = run_processes(self.workers, calls)
        else:
            run_threads(self.workers, _taken_in_order(calls, take))
            return
        with closing(results):
            for result in results:
                take(result)

    def __enter__(self) -> WorkerPool:
        if self.scheduler is not None:
            dask_cluster.connect_to_dask(self.scheduler)
        return self

    def __exit__(self, *_: object) -> None:
        if self.scheduler is not None:
            dask_cluster.disconnect_from_dask(self.scheduler)


SINGLE_WORKER = WorkerPool()


def _taken_in_order(
    calls: Iterable[Callable[[], R]], take: Callable[[R], None]
) -> Iterator[Callable[[], None]]:
    """Yield the calls so changed that their results are taken one at a time and in order."""
    results: dict[int, R] = {}
    lock, taken = threading.Lock(), 0

    def run(number: int, call: Callable[[], R]) -> None:
        nonlocal taken
        result = call()
        with lock:
            results[number] = result
            while taken in results:
                take(results.pop(taken))
                taken += 1

    return (partial(run, number, call) for number, call in enumerate(calls))


def run_processes(workers: int, calls: Iterable[Callable[[], R]]) -> Generator[R, None, None]:
    """Yield the results of the calls in order; the processes end with the last one or on an error.

    joblib would keep them for the next calls, which wait forever if the processes have ended.
    """
    finished = False
    options = {"initializer": exit_with_parent, "initargs": (os.getpid(),)} if workers > 1 else {}
    parallel = Parallel(n_jobs=workers, return_as="generator", **options)
    try:
        with delayed_interrupts() if workers > 1 else nullcontext():
            results = parallel(delayed(call)() for call in calls)
        yield from results
        finished = True
    finally:
        if workers > 1:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=not finished)


@contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Delay interrupts; processes started inside receive none and should follow their parent."""
    for tracker in (resource_tracker, loky_tracker):
        tracker.ensure_running()  # the first time, this unblocks interrupts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended in any way."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
