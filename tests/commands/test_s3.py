"""The command s3: what its run keeps, that it goes on after a kill, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autoprox import runner
from autoprox.commands.s3_space_search import S3Summary
from autoprox.configurations.supernets import S3Config
from autoprox.errors import AutoproxError
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.oneshot_reports import s3_report
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.swin import SwinSpace

TINY: dict[str, Any] = {
    **{"space": "swin-nano", "epochs": 1, "batch_size": 16, "learning_rate": 3e-3},
    **{"samples": 4, "top_tier": 2, "threshold": 5.0, "rounds": 2, "flops": ":4M"},
    **{"population": 4, "generations": 1, "parents": 2, "progress": False, "workers": 1},
}
FILES = ("space.json", "errors.jsonl", "evolution.json")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes, the brighter ones and the darker ones."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    pixels = rng.integers(0, 128, (40, 16, 16, 3)) + 100 * labels[:, None, None, None]
    path = tmp_path_factory.mktemp("images") / "bright.npz"
    np.savez(path, images=pixels.astype(np.uint8), labels=labels)
    return path


def run_s3(images: Path, runs: Path, follow: Any = False, **options: Any) -> dict[str, Any]:
    given = {**TINY, "images": str(images), "runs": str(runs), **options}
    return runner.start(S3Config(**given), follow or (lambda *told: None)).to_json()


@pytest.fixture(scope="module")
def whole(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_s3(images, tmp_path_factory.mktemp("whole"))


def content(run: Path) -> dict[str, Any]:
    """What the rounds and the search left."""
    found: dict[str, Any] = {"best": json.loads((run / "best.json").read_text())}
    for number in range(2):
        for name in FILES:
            file = run / f"round{number}" / name
            if file.exists():
                found[f"{number} {name}"] = file.read_text()
    return found


def test_a_run_keeps_every_round(whole: dict[str, Any]) -> None:
    run, space = Path(whole["run"]), get_space("swin-nano")
    spaces = [json.loads((run / f"round{n}" / "space.json").read_text()) for n in range(2)]
    assert spaces[0] == {name: list(field.options[0]) for name, field in space.fields.items()}
    evolution = json.loads((run / "round0" / "evolution.json").read_text())
    assert spaces[1] == {name: own["after"] for name, own in evolution.items()}
    lines = [
        json.loads(line) for line in (run / "round0" / "errors.jsonl").read_text().splitlines()
    ]
    errors = sorted(100 - line["accuracy"] for line in lines)
    row = whole["rounds"][0]
    assert row["expected"] == pytest.approx(sum(errors) / 4)
    assert row["top_tier"] == pytest.approx(sum(errors[:2]) / 2)
    assert row["error"] == pytest.approx((row["expected"] + row["top_tier"]) / 2)
    for line in lines:
        assert space.flops(space.architecture(line["arch"]), 2) <= 4_000_000
    for plot in ("options", "errors"):
        assert Path(whole["plots"][plot]).read_bytes().startswith(b"\x89PNG")


def test_the_best_network_can_be_built(whole: dict[str, Any]) -> None:
    """Its choices are of the last space, perhaps beyond those of the first."""
    space, best = get_space("swin-nano"), whole["best"]
    arch = Architecture(best["arch"]["space"], best["arch"]["choices"])
    network = space.build(arch, 2)
    assert sum(p.numel() for p in network.parameters()) == best["params"]
    assert network(torch.zeros(1, 3, 16, 16)).shape == (1, 2)
    options = whole["rounds"][-1]["options"]
    for name, value in best["arch"]["choices"].items():
        assert set(value if isinstance(value, list) else [value]) <= set(options[name])


@pytest.mark.parametrize(
    ("task", "done"),
    [("train space 0", 1), ("measure space 0", 2), ("train space 1", 1), ("search", 5)],
)
def test_a_killed_run_goes_on_to_the_same_result(
    task: str, done: int, images: Path, tmp_path: Path, whole: dict[str, Any]
) -> None:
    def stop(name: str, at: int, total: int, note: str) -> None:
        if (name, at) == (task, done):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_s3(images, tmp_path, stop)
    [run] = tmp_path.iterdir()
    resumed = runner.resume_run(run).to_json()
    assert content(run) == content(Path(whole["run"]))
    assert {n: v for n, v in resumed.items() if n not in ("run", "seconds", "plots")} == {
        n: v for n, v in whole.items() if n not in ("run", "seconds", "plots")
    }
    assert len((run / "log.jsonl").read_text().splitlines()) == 2


def test_rounds_end_before_a_space_beyond_the_limits(
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was trained isn't lost: the search is in the space before."""
    monkeypatch.setattr(
        "autoprox.commands.s3_space_search.evolve_space", lambda space, found: widened(space)
    )
    summary = run_s3(images, tmp_path, rounds=3, population=2)
    assert len(summary["rounds"]) == 1
    assert "must be within the limits, but none is within flops :4M" in summary["ended"]
    assert summary["best"]["flops"] <= 4_000_000
    assert [path.name for path in Path(summary["run"]).glob("round*")] == ["round0"]
    show(*s3_report(S3Summary.model_validate(summary, strict=False)))
    assert "No round 1: an architecture of swin-nano must be" in capsys.readouterr().out


def widened(space: SwinSpace) -> SwinSpace:
    wide = {name: (640,) for name in space.options if name.startswith("embed_dim")}
    return space.with_options({**space.options, **wide})


def test_without_matplotlib_it_says_so(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoprox.commands.s3_space_search.find_spec", lambda name: None)
    summary = run_s3(images, tmp_path, rounds=1, population=2)
    assert "pip install 'autoprox[plots]'" in summary["plots"]["reason"]
    assert not list(Path(summary["run"]).glob("*.png"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"space": "pit"},
            "needs a space whose options move by steps, which pit is not; choose from s3, swin",
        ),
        ({"space": "swin-nan"}, r"unknown search space 'swin-nan' \(did you mean swin-nano"),
        ({"flops": ":1K"}, r"must be within the limits, but none is within flops :1K: the nearest"),
        ({"rounds": 0}, "rounds must be a whole number >= 1, but got 0"),
        ({"threshold": 0.0}, "threshold must be a number > 0, but got 0.0"),
        (
            {"batch_size": 16, "processes": 3},
            "a multiple of processes, but got 16 and 3",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(
    options: dict[str, Any], message: str, images: Path, tmp_path: Path
) -> None:
    with pytest.raises(AutoproxError, match=message) as error:
        run_s3(images, tmp_path / "runs", **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_the_report_has_a_row_for_each_space(
    whole: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = [*whole["rounds"][:1], {**whole["rounds"][1], "dropped": {"window_1": [0, -2]}}]
    changed = {**whole, "rounds": rounds}
    show(*s3_report(S3Summary.model_validate(changed, strict=False)))
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 or "/" in line for line in shown.splitlines())
    assert "Dropped before space 1, as no network has them: window_1 0 -2" in shown
    assert f"accuracy {whole['best']['accuracy']:.2f} with inherited" in shown
