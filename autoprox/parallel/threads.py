"""Runs independent calls on several threads, each of which uses a single thread of torch."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from autoprox.errors import TerminatedError


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: sums have one order, and small operations wait for no others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_threads(workers: int, calls: Iterable[Callable[[], None]]) -> None:
    """Run the calls on so many threads, this one among them; after an error none begins.

    Each call uses one thread of torch, so that results don't depend on how many workers run.
    """
    pending, lock = iter(calls), threading.Lock()

    def work() -> None:
        nonlocal pending
        torch.set_num_threads(1)
        try:
            while True:
                with lock:
                    call = next(pending, None)
                if call is None:
                    return
                call()
        except BaseException:
            pending = iter(())
            raise

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers)
    wait = True
    try:
        others = [pool.submit(work) for _ in range(workers - 1)]
        work()
        for other in others:
            other.result()
    except (KeyboardInterrupt, TerminatedError):
        wait = False  # for what the others are at may take minutes
        raise
    finally:
        pool.shutdown(wait)
        torch.set_num_threads(threads)
