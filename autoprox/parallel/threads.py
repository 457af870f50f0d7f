"""Independent calls on several threads, each of which uses a single thread of torch."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from autoprox.errors import TerminatedError


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Limit torch to one thread: sums have a fixed order, and small operations don't wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_threads(workers: int, calls: Iterable[Callable[[], None]]) -> None:
    """Run the calls on `workers` threads, including this one; after an error no call begins.

    Each call uses one thread of torch, so that results don't depend on the number of workers.
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
        wait = False  # the calls of the other threads may take minutes
        raise
    finally:
        pool.shutdown(wait)
        torch.set_num_threads(threads)
