"""Calls on the workers of a dask scheduler, on this machine and others.

A call and its result are sent as bytes. What all calls share is a task of its own, which dask
repeats elsewhere if the worker that had it dies. Only the same versions and instruction set give
the same bits: a worker with others refuses to work.

dask's own client sends the calls. joblib's dask backend waits forever for a call that dask has
given up, and after a worker's death passes futures to calls instead of their values.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import pickle
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from autoprox.errors import ClusterError, ConfigError, one_line

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")
TimedResults = tuple[list[Any], float]  # results, and the seconds that they took
CONNECT_TIMEOUT, WORKERS_TIMEOUT = 5, 10  # seconds for the scheduler to answer; for its workers
PATIENCE = 60  # seconds without a worker, after which a run ends; one that comes earlier is used
LOOK = 5  # seconds between two looks for workers
CACHED_ARGUMENTS = 4  # shared arguments that a worker keeps as objects
MIN_SECONDS, MAX_ITEMS = 0.5, 32  # duration to aim for by sending several items in a message
MESSAGES = 200  # per second, that a scheduler and its client can handle
GATHERED = 16  # results that are fetched together
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # options of glibc's mallopt(3)
CALLS_PER_WORKER = 8  # sent ahead, since some take longer than others

CLIENTS: dict[str, Client] = {}  # by the scheduler's address


def connect_to_dask(address: str) -> None:
    """Open the connection to a scheduler that has workers."""
    try:
        from distributed import Client  # optional
    except ImportError:
        raise ConfigError(
            "the backend dask needs the extra `distributed`: pip install 'autoprox[distributed]'"
        ) from None
    for name in [*logging.root.manager.loggerDict]:
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # we report the errors ourselves
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        rule = "a scheduler must answer (`dask scheduler` starts one)"
        raise ClusterError(f"{rule}, but none does at {address}") from error
    try:
        client.wait_for_workers(1, timeout=WORKERS_TIMEOUT)
    except (TimeoutError, asyncio.TimeoutError) as error:  # the same class from Python 3.11 on
        client.close()
        rule = f"a scheduler must have workers (`dask worker {address}` starts one)"
        raise ClusterError(f"{rule}, but that at {address} has none") from error
    CLIENTS[address] = client


def disconnect_from_dask(address: str) -> None:
    """Close the connection; waiting calls are dropped."""
    CLIENTS.pop(address).close()


def count_workers(address: str) -> int:
    """Return the number of calls that the workers run at the same time."""
    return max(1, sum(map(int, CLIENTS[address].ncores().values())))


def run_calls_on_dask(
    address: str, function: Callable[..., R], items: Sequence[Any], shared: tuple[Any, ...]
) -> Generator[R, None, None]:
    """Yield the results of `function(*shared, item)` in the order of the items.

    Short calls are sent together, since each message takes the scheduler time. Enough calls are
    sent ahead to keep every worker busy, and no more, because their results stay in the workers'
    memory until they are taken.
    """
    import cloudpickle  # comes with dask

    client, ours = CLIENTS[address], required_versions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the size: it is sent once per worker
        common = client.submit(bytes, cloudpickle.dumps((function, shared)), pure=False)
    workers = count_workers(address)
    least = max(MIN_SECONDS, workers / MESSAGES)
    source, together, done, spent = iter(items), 1, 0, 0.0

    def calls() -> Iterator[Any]:
        while some := list(islice(source, together)):
            yield client.submit(_call, ours, common, cloudpickle.dumps(some), pure=False)

    waiting = deque(islice(calls(), CALLS_PER_WORKER * workers))
    try:
        while waiting:
            found = _first_results(client, waiting)
            done += sum(len(results) for results, _ in found)
            spent += sum(seconds for _, seconds in found)
            together = max(1, min(MAX_ITEMS, int(least * done / max(spent, least))))
            waiting.extend(islice(calls(), len(found)))
            for results, _ in found:
                yield from results
    finally:
        client.cancel([common, *waiting], force=True)


def _first_results(client: Client, waiting: deque[Any]) -> list[TimedResults]:
    """Take the results of the first calls that are done, at least of one.

    An error of the cluster is raised as a ClusterError, an error of the call as it is.
    """
    first = waiting.popleft()
    try:
        results = _gather(client, [first])
        ahead = islice(waiting, GATHERED)
        done = list(takewhile(lambda call: call.status == "finished", ahead))
        results += _gather(client, done)
    except ClusterError:
        raise
    except Exception as error:
        name = type(error).__name__
        if name == "KilledWorker":
            reason = "workers must survive a call, but several died of one: of its memory?"
        elif name in ("CancelledError", "FutureCancelledError", "FuturesCancelledError"):
            reason = "the scheduler must go on to the end, but it went"
        elif isinstance(error, ImportError):  # before a call began
            reason = f"workers must have autoprox installed, but got {one_line(error)}"
        else:
            raise
        raise ClusterError(reason) from error
    for _ in done:
        waiting.popleft()
    return results


def _gather(client: Client, calls: list[Any]) -> list[TimedResults]:
    """Return the results of calls; ClusterError after PATIENCE seconds without a worker.

    dask itself waits forever for another worker.
    """
    seen = time.monotonic()
    while True:
        try:
            found: list[TimedResults] = client.sync(
                lambda: client.gather(calls, asynchronous=True), callback_timeout=LOOK
            )
            return found
        except (TimeoutError, asyncio.TimeoutError):  # the same class from Python 3.11 on
            if any(call.status == "error" for call in calls):
                raise  # by the call itself
        now = time.monotonic()
        if client.ncores():
            seen = now
        elif now - seen >= PATIENCE:
            rule = "a scheduler must have a worker to go on"
            raise ClusterError(f"{rule}, but has had none for {PATIENCE} seconds")


@cache
def required_versions() -> dict[str, str]:
    """Return the versions and the instruction set, which the bits of results depend on."""
    packages = {name: version(name) for name in ("autoprox", "torch", "numpy")}
    return {**packages, "instructions": torch.backends.cpu.get_cpu_capability()}


def _call(ours: dict[str, str], common: bytes, items: bytes) -> TimedResults:
    """Run calls on a worker."""
    started = time.monotonic()
    theirs = required_versions()
    if differing := [f"{n} {v} for {ours[n]}" for n, v in theirs.items() if v != ours[n]]:
        raise ClusterError(
            f"workers must have this program's versions, but one has {', '.join(differing)}"
        )
    torch.set_num_threads(1)
    _keep_memory()
    try:
        function, shared = _unpickled(common)
        arguments = pickle.loads(items)
    except Exception as error:  # importing a user's module may raise anything
        raise ClusterError(
            f"workers must be able to import what they are to call, but got {one_line(error)}"
        ) from error
    results = [function(*shared, argument) for argument in arguments]
    return results, time.monotonic() - started


@cache
def _keep_memory() -> None:
    """Keep freed memory for reuse, as programs do by default: dask makes workers return it at once.

    They would be a third slower, since every larger tensor would be mapped and cleared again.
    """
    if sys.platform == "linux" and (change := getattr(ctypes.CDLL(None), "mallopt", None)):
        change(TRIM_THRESHOLD, 2**28)
        change(MMAP_THRESHOLD, 2**25)


@lru_cache(CACHED_ARGUMENTS)
def _unpickled(common: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function, shared = pickle.loads(common)
    return function, shared
