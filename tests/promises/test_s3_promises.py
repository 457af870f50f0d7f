"""`s3`: rounds, samples and the search's evaluations against the files of the run."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.images import save_images
from helpers.shortfalls import counted, is_told

from autoprox import runner
from autoprox.commands.s3_space_search import S3Summary
from autoprox.configurations.supernets import S3Config
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.run_report_by_kind import run_report
from autoprox.searchspaces import get_space

SPACE = get_space("swin-nano")
LEAST = SPACE.flops(SPACE.smallest(), 2)
NARROW = f":{LEAST + 3_000}"  # which few networks meet
TINY: dict[str, Any] = {
    **{"space": SPACE.name, "epochs": 1, "batch_size": 16, "rounds": 1, "flops": ":4M"},
    **{"samples": 2, "top_tier": 1, "population": 2, "generations": 1, "parents": 1},
    **{"progress": False, "workers": 1},
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes, of which 4 images each are held out."""
    return save_images(tmp_path_factory.mktemp("images") / "small.npz", 40, 2)


def run_s3(images: Path, runs: Path, follow: Any = None, **options: Any) -> dict[str, Any]:
    config = S3Config(**{**TINY, "images": str(images), "runs": str(runs), **options})
    return runner.start(config, follow or (lambda *told: None)).to_json()


def lines(run: str, name: str) -> list[dict[str, Any]]:
    """The lines of a file of the last round, no architecture twice."""
    rounds = sorted(Path(run).glob("round*"))
    found = [json.loads(line) for line in (rounds[-1] / name).read_text().splitlines()]
    assert len({json.dumps(line["arch"]) for line in found}) == len(found)
    return found


def options_of(summary: dict[str, Any], measured: list[dict[str, Any]]) -> tuple[int, int]:
    """How many options the last space has, and the networks that were measured."""
    options = summary["rounds"][-1]["options"]
    values = [(name, own["arch"][name]) for own in measured for name in options]
    seen = {(name, v) for name, own in values for v in (own if isinstance(own, list) else [own])}
    return sum(map(len, options.values())), len(seen)


def agrees(summary: dict[str, Any], options: dict[str, Any], printed: str) -> None:
    """Every number that falls short of what was asked for is told, and no other."""
    asked = {**TINY, **options}
    measured, searched = (lines(summary["run"], f"{n}.jsonl") for n in ("errors", "search"))
    best, last = summary["best"], len(summary["rounds"]) - 1
    evaluations = asked["population"] * (asked["generations"] + 1)
    assert summary["rounds"][-1]["architectures"] == len(measured)
    assert summary["rounds"][-1]["samples"] == asked["samples"]
    assert (best["asked"], best["evaluated"]) == (evaluations, len(searched))
    assert sum(best["generations"]) == len(searched)
    assert len(best["generations"]) == asked["generations"] + 1
    first = min(asked["parents"], best["generations"][0])
    counts = {
        f"samples of space {last}": (asked["samples"], len(measured)),
        f"options of space {last}": options_of(summary, measured),
        f"top-tier of space {last}": (asked["top_tier"], min(asked["top_tier"], len(measured))),
        "search, population in each generation": (evaluations, len(searched)),
        "parents": (asked["parents"], first),
        "limit": (asked.get("limit", 0), min(asked.get("limit", 0), 8)),
    }
    expected = {of: pair for of, pair in counts.items() if pair[1] < pair[0]}
    told = counted(summary)
    assert {of: told[of] for of in told if not of.startswith(("rounds", "held-out"))} == expected
    assert all(is_told(printed, of, *numbers) for of, numbers in told.items())


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 1},
        {"samples": 7, "top_tier": 3},
        {"samples": 13, "top_tier": 50},
        {"samples": 40, "flops": NARROW},
        {"population": 1, "generations": 1},
        {"population": 7, "generations": 2, "parents": 3},
        {"population": 13, "parents": 20},
        {"population": 13, "generations": 2, "flops": NARROW},
        {"limit": 1},
        {"limit": 7},
        {"limit": 1000},
    ],
)
def test_what_was_done_is_what_was_asked_for_or_told(
    images: Path,
    tmp_path: Path,
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = run_s3(images, tmp_path, **options)
    show(*run_report("s3", S3Summary.model_validate(summary, strict=False)))
    agrees(summary, options, capsys.readouterr().out)
    assert summary["shortfalls"] or options.get("flops") != NARROW


@pytest.mark.parametrize("parents", [1, 2])
def test_few_parents_have_as_many_children(images: Path, tmp_path: Path, parents: int) -> None:
    """Crossover of one with itself makes nothing new."""
    summary = run_s3(images, tmp_path, population=8, parents=parents)
    assert summary["best"]["generations"] == [8, 8]
    assert len(lines(summary["run"], "search.jsonl")) == 16


@pytest.mark.parametrize(("task", "done"), [("measure space 0", 3), ("search", 5)])
def test_a_resumed_run_falls_short_of_the_same(
    images: Path, tmp_path: Path, task: str, done: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"samples": 13, "top_tier": 50, "population": 7, "parents": 20, "limit": 1000}

    def stop(name: str, at: int, total: int, note: str) -> None:
        if (name, at) == (task, done):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_s3(images, tmp_path, stop, **options)
    [run] = tmp_path.iterdir()
    summary = runner.resume_run(run).to_json()
    show(*run_report("s3", S3Summary.model_validate(summary, strict=False)))
    agrees(summary, options, capsys.readouterr().out)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_all_rounds_are_done_or_the_others_told(
    images: Path, tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third space is beyond the limits."""
    calls = []

    def evolved(space: Any, found: Any) -> Any:
        calls.append(space)
        if len(calls) == 1:
            return space
        wide = {name: (640,) for name in space.options if name.startswith("embed_dim")}
        return space.with_options({**space.options, **wide})

    monkeypatch.setattr("autoprox.commands.s3_space_search.evolve_space", evolved)
    summary = run_s3(images, tmp_path, rounds=rounds)
    done = min(rounds, 2)
    assert len(summary["rounds"]) == len([*Path(summary["run"]).glob("round*")]) == done
    assert len((Path(summary["run"]) / "log.jsonl").read_text().splitlines()) == done
    told = {of: pair for of, pair in counted(summary).items() if of == "rounds"}
    assert told == ({} if rounds == done else {"rounds": (rounds, done)})
