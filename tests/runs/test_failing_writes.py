"""Every write of a run fails once: what was there is whole, and the run goes on to the same end."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.tables import table

from autoprox.configurations.commands import EvolveConfig
from autoprox.runner import resume_run, start

ERRORS = (OSError(28, "No space left on device"), PermissionError(13, "Permission denied"))


def config(runs: str) -> EvolveConfig:
    return EvolveConfig(
        benchmark="mine.json",
        cache=runs,
        runs=runs,
        population=4,
        iterations=1,
        batch_size=2,
        statistics=("msa.weight",),
        zoo=("none",),
    )


def failing(
    call: Callable[..., Any], at: int, error: OSError
) -> tuple[Callable[..., Any], list[Any]]:
    """The function, whose call of this number fails; and its calls."""
    calls: list[Any] = []

    def instead(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == at:
            raise error
        return call(*arguments)

    return instead, calls


def contents(folder: Path) -> dict[str, Any]:
    """What a run has found, but for times."""
    found: dict[str, Any] = {}
    for name in ("summary.json", "hall_of_fame/1.json"):
        value = json.loads((folder / name).read_text())
        found[name] = {k: v for k, v in value.items() if k not in ("seconds", "found")}
    return found


@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_every_write_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    original = getattr(os, name)
    counting, calls = failing(original, 0, ERRORS[0])
    monkeypatch.setattr(os, name, counting)
    expected = contents(Path(start(config("whole")).run))
    total = len(calls)
    assert total > 10
    for at in (2, total // 2, total):
        instead, _ = failing(original, at, ERRORS[at % 2])
        monkeypatch.setattr(os, name, instead)
        runs = Path(f"runs-{at}")
        with pytest.raises(OSError, match=r"No space|Permission"):
            start(config(str(runs)))
        monkeypatch.setattr(os, name, original)
        assert not list(runs.rglob("*.part"))
        for path in runs.rglob("*.json"):
            json.loads(path.read_text())
        begun = [path.parent for path in runs.glob("*/config.json")]
        finished = resume_run(begun[0]) if begun else start(config(str(runs)))
        assert contents(Path(finished.run)) == expected
