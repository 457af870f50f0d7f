"""Progress: on a terminal a panel, elsewhere a line now and then."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from autoprox.progress import Note
from autoprox.report.terminal.progress_display import (
    LINE,
    LINE_INTERVAL,
    ProgressLines,
    ProgressPanel,
    progress_on,
    sparkline,
)


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
    report = ProgressLines(stream, clock)

    def at(now: float, *progress: str | int) -> list[str]:
        clock.now = now
        report(*progress)  # type: ignore[arg-type]
        return stream.getvalue().splitlines()

    return at


def test_lines_are_rare(at: Callable[..., list[str]]) -> None:
    assert at(0, "collect", 0, 100, "") == []
    assert at(LINE_INTERVAL - 0.1, "collect", 30, 100, "") == []
    assert len(at(LINE_INTERVAL, "collect", 40, 100, "")) == 1
    assert len(at(2 * LINE_INTERVAL - 0.1, "collect", 80, 100, "")) == 1
    assert len(at(2 * LINE_INTERVAL, "collect", 90, 100, "")) == 2


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
        assert isinstance(report, ProgressLines)
        report("collect", 3, 3, "")
    assert stream.getvalue() == "collect 3/3\n"


def test_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with progress_on(stream) as report:
        assert isinstance(report, ProgressPanel)
        report("run", 0, 0, "runs/mine")
        report("evolve", 7, 20, "[bold]best")
        report("evolve", 6, 20, "[bold]best")  # a slower thread
    last = stream.getvalue().rsplit("evolve", 1)[1]
    assert "runs/mine" in stream.getvalue()
    assert "7/20" in last
    assert "[bold]best" in last


def test_a_terminal_that_knows_no_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Plain(Terminal):
        encoding = "ascii"

    with progress_on(Plain()) as report:
        assert isinstance(report, ProgressLines)


def test_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with progress_on(Terminal()) as report:
        assert isinstance(report, ProgressLines)


FORMULA = (
    "distance(entropy(sigmoid(all.weight)), " + 9 * "add(" + "nuclear_norm(all.weight)" + ")" * 9
)


@pytest.fixture
def shown() -> Callable[..., list[str]]:
    """Tells a panel how far it is at a time, and returns its lines on a terminal of some width."""
    clock = Clock()
    panel = ProgressPanel(Console(file=io.StringIO(), force_terminal=True, width=80), clock)

    def shown(now: float, *progress: str | int, width: int = 80, after: float = 0) -> list[str]:
        clock.now = now
        panel(*progress)  # type: ignore[arg-type]
        clock.now += after
        console = Console(file=io.StringIO(), width=width)
        with console.capture() as captured:
            console.print(panel)
        return captured.get().splitlines()

    return shown


def note(best: float, tried: int) -> Note:
    return Note("text", value=best, of="fitness", formula=FORMULA, tried=tried, invalid=35)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_panel_never_wraps(shown: Callable[..., list[str]], width: int) -> None:
    shown(0, "run", 0, 0, "runs/" + 90 * "x", width=width)
    shown(0, "collect" + 90 * "x", 38, 38, "", width=width)
    lines = shown(9, "evolve", 1, 3, note(0.5, 1200), width=width)
    assert {len(line) for line in lines} == {width}
    assert len(lines) == 2 + 2 + 2  # the frame, the stages, the best and how many were tried
    [best] = [line for line in lines if "best" in line]
    assert "0.5000  d" in best
    assert ("…" in best) == (width < 120)


def test_the_panel_says_how_far_it_is(shown: Callable[..., list[str]]) -> None:
    """From 100 to 150 of 200 in 75 s: as much is left; 5,000 formulas in those, 66.7 a second."""
    shown(0, "collect", 0, 38, "")
    shown(4, "collect", 38, 38, "")
    shown(5, "evolve", 100, 200, Note(tried=1000, invalid=0))
    shown(42, "evolve", 120, 200, note(0.25, 3000))
    lines = shown(80, "evolve", 150, 200, note(0.75, 6000), after=5)
    collect, evolve, best, curve, tried = (line.strip("│ ") for line in lines[1:-1])
    assert collect.split() == ["collect", "━" * 16, "38/38", "in", "0:00:04"]
    assert evolve.split() == ["evolve", "━" * 12 + "─" * 4, "150/200", "0:01:10", "left"]
    assert best.startswith("best            0.7500  distance(entropy(")
    assert curve.split("  ")[-2:] == ["▁█", "0.2500 to 0.7500"]
    assert tried.endswith("6,000, 66.7 a second, 35 without a score")


def test_a_stage_that_begins_anew_is_the_last(shown: Callable[..., list[str]]) -> None:
    shown(0, "measure", 1, 1, "first")
    shown(1, "evolve", 3, 3, "")
    lines = shown(2, "measure", 0, 1, "\x1b[31msecond")
    assert [line.split()[1] for line in lines[1:-1]] == ["evolve", "measure", "now"]
    assert r"\x1b[31msecond" in lines[-2]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([3.0], "▁"),
        ([1.0, 1.0], "▁▁"),
        ([0.0, 3.5, 7.0], "▁▅█"),
        ([7.0, 6, 5, 4, 3, 2, 1, 0], "█▇▆▅▄▃▂▁"),
        ([float(n) for n in range(80)], "▁▂▃▄▅▆▇█"),
    ],
)
def test_a_sparkline(values: list[float], drawn: str) -> None:
    assert sparkline(values, 8) == drawn
