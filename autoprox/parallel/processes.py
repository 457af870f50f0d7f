"""Runs independent calls in several processes, none of which outlives the one that waits for it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import resource_tracker
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

R = TypeVar("R")
INTERVAL = 1.0  # seconds between two looks for the parent


def run_processes(workers: int, calls: Iterable[Callable[[], R]]) -> Generator[R, None, None]:
    """The results of the calls, in order; the workers end with the last, or if nobody waits.

    joblib would keep them for the next calls, which waited forever where they had ended meanwhile.
    """
    whole = False
    following = {"initializer": follow, "initargs": (os.getpid(),)} if workers > 1 else {}
    parallel = Parallel(n_jobs=workers, return_as="generator", **following)
    try:
        with interrupts_held() if workers > 1 else nullcontext():
            results = parallel(delayed(call)() for call in calls)
        yield from results
        whole = True
    finally:
        if workers > 1:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=not whole)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Answer an interrupt afterwards; processes begun herein get none, and follow their parent."""
    for tracker in (resource_tracker, loky_tracker):
        tracker.ensure_running()  # which, the first time, lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow(parent: int) -> None:
    """End this process when its parent has ended, however that did."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
