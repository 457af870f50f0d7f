"""Calls that the workers of a dask scheduler do, on this and other machines.

A call and its result are sent as bytes; what all calls share is a task of its own, which dask
repeats elsewhere where the worker that had it dies. Only the same versions and instructions give
the same bits: a worker with others does nothing.

It is dask's own client that sends. joblib's backend of dask, tried first, waits forever for a call
that dask has given up, and after a worker's death hands futures to calls in place of their values.
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
Done = tuple[list[Any], float]  # results, and the seconds that they took
CONNECT, WORKERS = 5, 10  # seconds until a scheduler must answer, and have a worker
PATIENCE = 60  # seconds without a worker, after which a run ends; one that comes earlier is used
LOOK = 5  # seconds between two looks for workers
KEPT = 4  # shared arguments that a worker keeps as objects
LEAST, MOST = 0.5, 32  # seconds that a call should take, by items that are sent together; of these
MESSAGES = 200  # a second, that a scheduler and its client carry
GATHERED = 16  # results that are fetched together
TRIM, MAP = -1, -3  # of glibc's mallopt(3): above which sizes freed memory goes back, or is mapped
AHEAD = 8  # calls for each that a worker is at: some take longer than others

CLIENTS: dict[str, Client] = {}  # by the scheduler's address


def connect(address: str) -> None:
    """Open the connection to a scheduler that has workers."""
    try:
        from distributed import Client  # optional
    except ImportError:
        raise ConfigError(
            "the backend dask needs the extra `distributed`: pip install 'autoprox[distributed]'"
        ) from None
    for name in [*logging.root.manager.loggerDict]:
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what is wrong, we say
    try:
        client = Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        rule = "a scheduler must answer (`dask scheduler` starts one)"
        raise ClusterError(f"{rule}, but none does at {address}") from error
    try:
        client.wait_for_workers(1, timeout=WORKERS)
    except (TimeoutError, asyncio.TimeoutError) as error:  # which are one from Python 3.11 on
        client.close()
        rule = f"a scheduler must have workers (`dask worker {address}` starts one)"
        raise ClusterError(f"{rule}, but that at {address} has none") from error
    CLIENTS[address] = client


def disconnect(address: str) -> None:
    """Close the connection; calls that wait are forgotten."""
    CLIENTS.pop(address).close()


def size(address: str) -> int:
    """How many calls the workers do at once."""
    return max(1, sum(map(int, CLIENTS[address].ncores().values())))


def run(
    address: str, function: Callable[..., R], items: Sequence[Any], shared: tuple[Any, ...]
) -> Generator[R, None, None]:
    """The results of `function(*shared, item)`, in the order of the items.

    Items that take little are sent together, for each message costs the scheduler its time. So many
    calls are sent ahead that no worker waits, and no more: their results stay with the
    workers until they are taken.
    """
    import cloudpickle  # comes with dask

    client, known = CLIENTS[address], versions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the size: it is sent once to a worker
        common = client.submit(bytes, cloudpickle.dumps((function, shared)), pure=False)
    workers = size(address)
    least = max(LEAST, workers / MESSAGES)
    source, together, done, spent = iter(items), 1, 0, 0.0

    def calls() -> Iterator[Any]:
        while some := list(islice(source, together)):
            yield client.submit(_do, known, common, cloudpickle.dumps(some), pure=False)

    waiting = deque(islice(calls(), AHEAD * workers))
    try:
        while waiting:
            found = _first_results(client, waiting)
            done += sum(len(results) for results, _ in found)
            spent += sum(seconds for _, seconds in found)
            together = max(1, min(MOST, int(least * done / max(spent, least))))
            waiting.extend(islice(calls(), len(found)))
            for results, _ in found:
                yield from results
    finally:
        client.cancel([common, *waiting], force=True)


def _first_results(client: Client, waiting: deque[Any]) -> list[Done]:
    """Take the results of the first calls that are done, at least of one."""
    first = waiting.popleft()
    try:
        results = _gather(client, [first])
        ahead = islice(waiting, GATHERED)
        done = list(takewhile(lambda call: call.status == "finished", ahead))
        results += _gather(client, done)
    except Exception as error:
        raise _explained(error) from error
    for _ in done:
        waiting.popleft()
    return results


def _gather(client: Client, calls: list[Any]) -> list[Done]:
    """Return the results of calls; ClusterError after PATIENCE seconds without a worker.

    dask itself waits for ever for another worker.
    """
    seen = time.monotonic()
    while True:
        try:
            found: list[Done] = client.sync(
                lambda: client.gather(calls, asynchronous=True), callback_timeout=LOOK
            )
            return found
        except (TimeoutError, asyncio.TimeoutError):  # which are one from Python 3.11 on
            if any(call.status == "error" for call in calls):
                raise  # of the call itself
        now = time.monotonic()
        if client.ncores():
            seen = now
        elif now - seen >= PATIENCE:
            rule = "a scheduler must have a worker to go on"
            raise ClusterError(f"{rule}, but has had none for {PATIENCE} seconds")


def _explained(error: Exception) -> Exception:
    """What a call raised, or why it has no result."""
    if isinstance(error, ClusterError):
        return error
    name = type(error).__name__
    if name == "KilledWorker":
        return ClusterError("workers must survive a call, but several died of one: of its memory?")
    if name in ("CancelledError", "FutureCancelledError", "FuturesCancelledError"):
        return ClusterError("the scheduler must go on to the end, but it went")
    if isinstance(error, ImportError):  # before a call began
        return ClusterError(f"workers must have autoprox installed, but got {one_line(error)}")
    return error


@cache
def versions() -> dict[str, str]:
    """What a worker must have alike for the same bits."""
    packages = {name: version(name) for name in ("autoprox", "torch", "numpy")}
    return {**packages, "instructions": torch.backends.cpu.get_cpu_capability()}


def _do(known: dict[str, str], common: bytes, items: bytes) -> Done:
    """A call, on a worker."""
    started = time.monotonic()
    if differing := [f"{n} {v} for {known[n]}" for n, v in versions().items() if v != known[n]]:
        raise ClusterError(
            f"workers must have this program's versions, but one has {', '.join(differing)}"
        )
    torch.set_num_threads(1)
    _keep_memory()
    try:
        function, shared = _loaded(common)
        arguments = pickle.loads(items)
    except Exception as error:  # whatever the import of what isn't ours raises
        raise ClusterError(
            f"workers must be able to import what they are to call, but got {one_line(error)}"
        ) from error
    results = [function(*shared, argument) for argument in arguments]
    return results, time.monotonic() - started


@cache
def _keep_memory() -> None:
    """Keep what is freed, as any program does: dask has its workers give it back at once.

    They would be a third slower, for every tensor of some size would be mapped and cleared anew.
    """
    if sys.platform == "linux" and (change := getattr(ctypes.CDLL(None), "mallopt", None)):
        change(TRIM, 2**28)
        change(MAP, 2**25)


@lru_cache(KEPT)
def _loaded(common: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function, shared = pickle.loads(common)
    return function, shared
