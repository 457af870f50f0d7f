"""Work on several threads."""

import threading

import pytest
import torch

from autoprox.errors import MeasurementError
from autoprox.parallel.threads import run_threads


def test_threads_of_torch_are_one_a_call_and_come_back() -> None:
    torch.set_num_threads(2)
    try:
        seen: list[int] = []
        run_threads(3, [lambda: seen.append(torch.get_num_threads())] * 5)
        assert seen == [1] * 5
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_error_no_further_call_begins(workers: int) -> None:
    done: list[int] = []

    def fail() -> None:
        raise MeasurementError("stop")

    def late() -> None:
        threading.Event().wait(0.01)
        done.append(1)

    with pytest.raises(MeasurementError, match="stop"):
        run_threads(workers, [fail, *[late] * 100])
    assert len(done) < 50
