"""Progress: on a terminal a bar, elsewhere a line now and then."""

import io
from collections.abc import Callable

import pytest

from autoprox.report.progress import INTERVAL, LINE, Bars, Lines, progress_on


class Clock:
    """Time that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at() -> Callable[..., list[str]]:
    """Reports progress at a time, and returns all lines until then."""
    clock, stream = Clock(), io.StringIO()
    report = Lines(stream, clock)

    def at(now: float, *progress: str | int) -> list[str]:
        clock.now = now
        report(*progress)  # type: ignore[arg-type]
        return stream.getvalue().splitlines()

    return at


def test_lines_are_rare(at: Callable[..., list[str]]) -> None:
    assert at(0, "collect", 0, 100, "") == []
    assert at(INTERVAL - 0.1, "collect", 30, 100, "") == []
    assert len(at(INTERVAL, "collect", 40, 100, "")) == 1
    assert len(at(2 * INTERVAL - 0.1, "collect", 80, 100, "")) == 1
    assert len(at(2 * INTERVAL, "collect", 90, 100, "")) == 2


def test_a_line_ends_each_task(at: Callable[..., list[str]]) -> None:
    at(0, "collect", 1, 2, "")
    assert at(0.1, "collect", 2, 2, "") == ["collect 2/2"]
    assert at(0.2, "evolve", 5, 5, "best 0.5") == ["collect 2/2", "evolve 5/5  best 0.5"]


def test_time_left_is_of_this_process(at: Callable[..., list[str]]) -> None:
    """A resumed evolution begins at 100; 50 iterations in 75 s leave 50 for 75 s."""
    at(5, "evolve", 100, 200, "")
    assert at(80, "evolve", 150, 200, "best 0.5") == ["evolve 150/200  0:01:15 left  best 0.5"]


def test_only_notes_are_cut(at: Callable[..., list[str]]) -> None:
    [announced] = at(0, "run", 0, 0, "runs/" + 200 * "x")
    assert announced.endswith("/" + 200 * "x")
    assert len(at(0, "evolve", 1, 1, 200 * "x")[1]) == LINE


def test_not_a_terminal() -> None:
    stream = io.StringIO()
    with progress_on(stream) as report:
        assert isinstance(report, Lines)
        report("collect", 3, 3, "")
    assert stream.getvalue() == "collect 3/3\n"


def test_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with progress_on(stream) as report:
        assert isinstance(report, Bars)
        report("run", 0, 0, "runs/mine")
        report("evolve", 7, 20, "[bold]best")
        report("evolve", 6, 20, "[bold]best")  # a slower thread
    last = stream.getvalue().rsplit("evolve", 1)[1]
    assert "runs/mine" in stream.getvalue()
    assert "7/20" in last
    assert "[bold]best" in last


def test_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with progress_on(Terminal()) as report:
        assert isinstance(report, Lines)
