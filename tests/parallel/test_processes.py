"""Processes: their results, and that an interrupt is the parent's alone to answer."""

import signal
from functools import partial

import pytest

from autoprox.parallel.processes import interrupts_held, run_processes


def held(number: int) -> tuple[int, bool]:
    """The number, and whether this process holds interrupts back."""
    return number, signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_workers_get_no_interrupt(workers: int) -> None:
    calls = [partial(held, number) for number in range(4)]
    expected = [(number, workers > 1) for number in range(4)]
    assert list(run_processes(workers, calls)) == expected
    assert held(0) == (0, False)


def test_an_interrupt_comes_afterwards() -> None:
    answered = []

    def interrupted() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            answered.append("first")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert answered == ["first"]
