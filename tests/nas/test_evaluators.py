"""Evaluators of batches: whatever the order of their answers, results and records are the same."""

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers.networks import tiny

import autoprox
from autoprox.files.json_documents import JSONFileError
from autoprox.nas.architecture_evaluators import (
    ArchitectureEvaluator,
    EvaluationBatch,
    evaluate_one_by_one,
)

ARCHITECTURES = [tiny(width, (1, 1.0)) for width in (8, 12, 16)]
MINE = """
from autoprox.nas.architecture_evaluators import evaluates_in_batches

def value(architecture):
    CALLS.append(architecture)
    heads = architecture["choices"]["num_heads"]
    if sum(heads) % 3 == 0:
        raise ValueError("a multiple of 3")
    return sum(heads)

def answers(batch, order):
    BATCHES.append(batch)
    for index in order(range(len(batch.architectures))):
        try:
            yield index, value(batch.architectures[index])
        except ValueError as error:
            yield index, error

@evaluates_in_batches
def forward(batch):
    return answers(batch, list)

@evaluates_in_batches
def backward(batch):
    return answers(batch, reversed)

CALLS, BATCHES = [], []
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a user's module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


ETAS = {"strategy": "etas", "samples": 12, "mutants": 6, "steps": 3, "patience": 9}
RANDOM = {"strategy": "random", "samples": 20, "top": 6}


def search(evaluator: str, options: dict[str, Any] = ETAS) -> dict[str, Any]:
    return autoprox.search(
        space="autoformer-nano",
        proxy="sum(mul(width, heads))",
        seed=5,
        evaluator=evaluator,
        progress=False,
        **options,
    ).to_dict()


def comparable(summary: dict[str, Any]) -> dict[str, Any]:
    left_out = ("run", "seconds", "evaluator")
    return {name: value for name, value in summary.items() if name not in left_out}


@pytest.mark.parametrize("options", [ETAS, RANDOM])
def test_the_order_of_answers_changes_nothing(mine: Path, options: dict[str, Any]) -> None:
    functions = ("mine:value", "mine:forward", "mine:backward")
    one, *others = (search(name, options) for name in functions)
    record = (Path(one["run"]) / "evaluations.jsonl").read_bytes()
    assert one["failed"]["evaluator: ValueError: a multiple of 3"] > 0
    for other in others:
        assert comparable(other) == comparable(one)
        assert (Path(other["run"]) / "evaluations.jsonl").read_bytes() == record


def test_a_batch_has_seed_device_and_budget(mine: Path) -> None:
    search("mine:backward", {**ETAS, "device": "cpu"})
    batches = sys.modules["mine"].BATCHES
    assert [len(batch.architectures) for batch in batches] == [3, 3, 3, 3, 1]
    assert [batch.budget for batch in batches] == [12, 9, 6, 3, 1]  # the last is the largest
    assert {(batch.seed, batch.device) for batch in batches} == {(5, "cpu")}
    assert set(batches[0].architectures[0]) == {"space", "choices"}


@pytest.mark.parametrize("answered", range(14))
def test_answers_out_of_order_are_not_asked_for_again(mine: Path, answered: int) -> None:
    """A kill leaves answers in the order in which they arrived, the last batch incomplete."""
    whole = search("mine:backward")
    path, cut = Path(whole["run"]), mine / "cut"
    shutil.copytree(path, cut)
    for name in ("summary.json", "top.json"):
        (cut / name).unlink()
    lines = (path / "evaluations.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 13
    arrived = [line for batch in range(0, 13, 3) for line in reversed(lines[batch : batch + 3])]
    assert arrived != lines
    (cut / "evaluations.jsonl").write_text("".join(arrived[:answered]))
    module = sys.modules["mine"]
    module.CALLS.clear()
    again = autoprox.resume(cut, evaluator="mine:backward", progress=False).to_dict()
    assert comparable(again) == comparable(whole)
    assert (cut / "evaluations.jsonl").read_text() == "".join(lines)
    assert len(module.CALLS) == 13 - answered


def test_an_answer_is_on_record_when_the_next_one_is_asked_for(mine: Path) -> None:
    """Of those that had arrived when an evaluator was interrupted, in the order of the answers."""
    stop = "CALLS.append(architecture)\n    if len(CALLS) == 3: raise KeyboardInterrupt"
    (mine / "mine.py").write_text(MINE.replace("CALLS.append(architecture)", stop))
    with pytest.raises(KeyboardInterrupt):
        search("mine:backward")
    [record] = mine.glob("runs/*/evaluations.jsonl")
    numbers = [json.loads(line)["candidate"] for line in record.read_text().splitlines()]
    (mine / "mine.py").write_text(MINE)
    sys.modules.pop("mine")
    whole = autoprox.resume(record.parent, evaluator="mine:backward", progress=False).to_dict()
    asked = [json.loads(line)["candidate"] for line in record.read_text().splitlines()]
    assert numbers == [asked[2], asked[1]]
    assert comparable(whole) == comparable(search("mine:forward"))


@pytest.mark.parametrize("changed", [{"candidate": 999}, {"candidate": None}])
def test_a_record_of_another_candidate_is_refused(mine: Path, changed: dict[str, Any]) -> None:
    path = Path(search("mine:forward")["run"])
    (path / "summary.json").unlink()
    file = path / "evaluations.jsonl"
    first, second, *rest = map(json.loads, file.read_text().splitlines())
    changed = second if changed["candidate"] is None else {**first, **changed}
    file.write_text("".join(json.dumps(line) + "\n" for line in (changed, second, *rest)))
    with pytest.raises(JSONFileError, match="must be the candidate that the seed leads to"):
        autoprox.resume(path, evaluator="mine:forward", progress=False)


def failing(batch: EvaluationBatch[Any]) -> Iterable[tuple[int, Any]]:
    yield 2, 7
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda batch: [(2, 1.5), (0, True), (1, "3")], {0: 1.0, 1: 3.0, 2: 1.5}),
        (lambda batch: [(1, 1.0)], {0: "no answer", 1: 1.0, 2: "no answer"}),
        (failing, {0: "ValueError: broken", 1: "ValueError: broken", 2: 7.0}),
        (
            lambda batch: [(0, ValueError("bad")), (1, float("nan")), (2, None)],
            {0: "ValueError: bad", 1: "nan", 2: "TypeError: "},
        ),
        (
            lambda batch: [(1, 1.0), (1, 2.0)],
            {0: "an index must be one of 0, 2, but", 1: 1.0, 2: "the answer is for 1"},
        ),
        (lambda batch: [(3, 1.0)], dict.fromkeys(range(3), "0, 1, 2, but the answer is for 3")),
        (lambda batch: [4], dict.fromkeys(range(3), "TypeError: ")),
        (lambda batch: None, dict.fromkeys(range(3), "TypeError: ")),
    ],
)
def test_each_architecture_has_one_value_or_one_failure(
    ask: Callable[..., Any], expected: dict[int, float | str]
) -> None:
    found = list(ArchitectureEvaluator("own", ask).evaluate(ARCHITECTURES, budget=3))
    assert sorted(index for index, _, _ in found) == [0, 1, 2]
    for index, value, failure in found:
        wanted = expected[index]
        if isinstance(wanted, str):
            assert value is None
            assert str(failure).startswith("evaluator: ")
            assert wanted in str(failure)
        else:
            assert (value, failure) == (wanted, None)


def test_a_function_of_one_architecture_is_asked_in_order() -> None:
    asked: list[Any] = []
    evaluator = ArchitectureEvaluator(
        "own", evaluate_one_by_one(lambda a: asked.append(a) or random.random())
    )
    assert [index for index, _, _ in evaluator.evaluate(ARCHITECTURES, budget=3)] == [0, 1, 2]
    assert asked == ARCHITECTURES
