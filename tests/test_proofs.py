"""The short forms of the proofs: the same however a command is run, after a kill too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crash
import proving
import pytest
import same
import writes


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def do() -> Iterator[proving.Warm]:
    with proving.warm({"PYTHONHASHSEED": "0"}) as process:
        yield process


@pytest.fixture(scope="module")
def reference(work: Path, do: proving.Warm) -> dict[str, Any]:
    """What cases leave that weren't stopped, when there is one."""
    proving.prepare(work / "ready", do)
    return {}


@pytest.fixture(scope="module")
def found(work: Path, do: proving.Warm) -> dict[str, Any]:
    """The result of a proof whose reference is there."""
    made = same.beginning()
    same.vary("reference", same.SMALL_CASES, work, made, known=do)
    return made


def test_what_is_found_does_not_depend_on_how(
    work: Path, found: dict[str, Any], do: proving.Warm
) -> None:
    for name in same.SMALL_VARIATIONS:
        known = None if same.VARIATIONS[name].environment else do
        same.vary(name, same.SMALL_CASES, work, found, known=known)
    told = same.verdicts(found)
    assert len(told) == len(same.SMALL_CASES) * len(same.SMALL_VARIATIONS)
    assert {verdict for *_, verdict in told} == {"same"}, same.shown(found)


def test_a_difference_is_named(tmp_path: Path) -> None:
    one, other = {"a": [1.0, 2.0], "b": "x"}, {"a": [1.0, 2.5], "b": "x"}
    assert same.apart(one, other) == pytest.approx(0.2)
    assert same.apart(one, {**one, "b": "y"}) == float("inf")
    assert same.differing({"a": "1", "b": "2"}, {"a": "1", "c": "3"}) == ["b", "c"]
    entry = {"differs": ["summary best"], "relative": 0.2}
    assert same.verdict("one-cpu", "rank", entry) == "DIFFERS in summary best, by 0.2"


@pytest.mark.parametrize("number", range(3))
def test_a_kill_is_survived(
    do: proving.Warm, work: Path, reference: dict[str, Any], number: int
) -> None:
    signals = [crash.KILL, *map(int, crash.CODES)]
    trials = list(crash.trials(signals, 3, ["prenas"]))
    trial = trials[number]
    told = crash.tried(trial, do, work, reference, work / "trial")
    assert told["faults"] == [], trial


def test_what_is_torn_or_left_is_seen(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"a": 1}\n{"a":')
    (tmp_path / ".x.json.1-2.part").write_text("{")
    assert list(crash.torn(tmp_path)) == []
    assert list(crash.leftovers(tmp_path, ())) == ["left: .x.json.1-2.part"]
    (tmp_path / "summary.json").write_text('{"a":')
    [fault] = crash.torn(tmp_path)
    assert fault.startswith("summary.json is torn")


@pytest.mark.parametrize("case", ["evolve", "rank", "search", "build", "prenas"])
def test_a_write_may_fail(case: str, tmp_path: Path) -> None:
    writes.prepare(tmp_path / "ready")
    told = writes.tried(case, tmp_path, range(1 + len(case), 10**6, 23))
    assert told["writes"] > 20
    assert told["failed"] > 1
    assert told["faults"] == []
