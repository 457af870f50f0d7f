"""Processes: their results, and that an interrupt is the parent's alone to answer."""

import signal
import time
from functools import partial

import pytest
from helpers.calls import held, linger

from autoprox.errors import MeasurementError
from autoprox.parallel.worker_pool import delayed_interrupts, run_processes


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_workers_get_no_interrupt(workers: int) -> None:
    calls = [partial(held, number) for number in range(4)]
    expected = [(number, workers > 1) for number in range(4)]
    assert list(run_processes(workers, calls)) == expected
    assert held(0) == (0, False)


def test_after_an_error_nobody_waits_for_the_others() -> None:
    began = time.monotonic()
    with pytest.raises(MeasurementError, match="no such thing"):
        list(run_processes(2, [partial(linger, 0.0), partial(linger, 120.0)]))
    assert time.monotonic() - began < 60


def test_an_interrupt_comes_afterwards() -> None:
    answered = []

    def interrupted() -> None:
        with delayed_interrupts():
            signal.raise_signal(signal.SIGINT)
            answered.append("first")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert answered == ["first"]
