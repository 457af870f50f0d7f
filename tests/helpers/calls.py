"""What other processes are to call: they import it by its name."""

import os
import resource
import signal
import time

import torch
from torch import distributed

from autoprox.errors import MeasurementError
from autoprox.oneshot.supernet.training import EpochReport, ProcessRank


def held(number: int) -> tuple[int, bool]:
    """The number, and whether this process holds interrupts back."""
    return number, signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def fail(item: int) -> int:
    if item == 1:
        raise MeasurementError("no such thing")
    return item


def linger(seconds: float) -> None:
    time.sleep(seconds)
    if seconds == 0:
        raise MeasurementError("no such thing")


def faults(_: int) -> int:
    """How often new memory is asked for by tensors of a mebibyte, one after the other."""
    for _ in range(3):
        torch.zeros(2**18).add(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        torch.zeros(2**18).add(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def die(_: int) -> None:
    os._exit(1)


def fail_first(place: ProcessRank, device: str, report: EpochReport) -> None:
    """Of processes that train together the first fails, when all others have joined it."""
    distributed.barrier()
    if place.rank == 0:
        raise MeasurementError("no such thing")
    time.sleep(60)
