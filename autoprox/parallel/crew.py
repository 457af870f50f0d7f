"""Who does calls that don't depend on each other: this machine, or the workers of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from autoprox.parallel import cluster
from autoprox.parallel.processes import run_processes
from autoprox.parallel.threads import run_threads

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Crew:
    """So many workers on this machine, or beside them all those of a dask scheduler.

    Every call uses one thread of torch, so that results don't depend on who does it. A scheduler's
    workers can be used within `with crew`.
    """

    workers: int = 1
    scheduler: str | None = None

    @property
    def size(self) -> int:
        """How many calls are done at once."""
        return self.workers if self.scheduler is None else cluster.size(self.scheduler)

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[T],
        take: Callable[[R], None],
        *shared: object,
        processes: bool = False,
    ) -> None:
        """Take the results of `function(*shared, item)` in the items' order, as they are known.

        What is shared is sent to a scheduler's worker once. Here, threads do the calls, or
        `processes` where much of them is Python; after an error no further call begins.
        """
        calls = (partial(function, *shared, item) for item in items)
        if self.scheduler is not None:
            results = cluster.run(self.scheduler, function, items, shared)
        elif processes:
            results = run_processes(self.workers, calls)
        else:
            run_threads(self.workers, _ordered(calls, take))
            return
        with closing(results):
            for result in results:
                take(result)

    def __enter__(self) -> Crew:
        if self.scheduler is not None:
            cluster.connect(self.scheduler)
        return self

    def __exit__(self, *_: object) -> None:
        if self.scheduler is not None:
            cluster.disconnect(self.scheduler)


ALONE = Crew()


def _ordered(
    calls: Iterable[Callable[[], R]], take: Callable[[R], None]
) -> Iterator[Callable[[], None]]:
    """The calls, whose results are taken one at a time, the first call's first."""
    results: dict[int, R] = {}
    lock, taken = threading.Lock(), 0

    def do(number: int, call: Callable[[], R]) -> None:
        nonlocal taken
        result = call()
        with lock:
            results[number] = result
            while taken in results:
                take(results.pop(taken))
                taken += 1

    return (partial(do, number, call) for number, call in enumerate(calls))
