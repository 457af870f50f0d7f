"""What other processes are to call: they import it by its name."""

import os
import signal
import time

from autoprox.errors import MeasurementError


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


def die(_: int) -> None:
    os._exit(1)
