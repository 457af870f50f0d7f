"""Shortfalls: the number that was requested and the smaller one that was possible."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.furnished import furnish
from helpers.images import save_images
from helpers.shortfalls import counted, is_told

from autoprox.inputs.batch import Batch
from autoprox.statistics.collector import MeasurementSetting

IMAGES = 13  # in the folder; a training holds two of them out
NANO = "--space=autoformer-nano"
BENCHMARK = ("--benchmark=my-vits.json", "--images=few.npz")
EVOLVE = ("evolve", *BENCHMARK, "--zoo=none", "--statistics=mlp.weight,all.grad")
SMALL = ("--iterations=1", "--population=4", "--children=2", "--train=0.5")
TRAINING = ("--images=few.npz", "--epochs=1")
MEASURING: Mapping[str, tuple[str, ...]] = {
    "rank": ("rank", *BENCHMARK, "--proxies=snip"),
    "evolve": (*EVOLVE, *SMALL),
    "search": ("search", NANO, "--proxy=snip", "--samples=2", "--images=few.npz", "--classes=2"),
}
TRAININGS: Mapping[str, tuple[str, ...]] = {
    "supernet-train": ("supernet", "train", NANO, *TRAINING),
    "prenas": (
        "prenas",
        NANO,
        "--noise=2",
        "--sizes=20K:40K:20K",
        "--images=few.npz",
        "--epochs=1",
    ),
    "s3": (
        *("s3", "--space=swin-nano", *TRAINING, "--samples=4", "--top-tier=2", "--threshold=5"),
        *("--flops=:4M", "--rounds=1", "--population=4", "--generations=1", "--parents=2"),
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and few images of two classes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test
    furnish(tmp_path)
    save_images(tmp_path / "few.npz", IMAGES, classes=2)
    return tmp_path


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """A set to which the size of every batch is added that networks are measured on."""
    sizes: set[int] = set()
    made = MeasurementSetting.__init__

    def make(
        self: MeasurementSetting, batches: Mapping[str, Batch], *others: Any, **more: Any
    ) -> None:
        sizes.update(len(batch.inputs) for batch in batches.values())
        made(self, batches, *others, **more)

    monkeypatch.setattr(MeasurementSetting, "__init__", make)
    return sizes


@pytest.mark.parametrize("name", MEASURING)
@pytest.mark.parametrize("asked", [1, IMAGES, IMAGES + 4])
def test_a_batch_has_no_more_images_than_there_are(
    name: str, asked: int, folder: Path, run: Command, seen: set[int]
) -> None:
    result = run(*MEASURING[name], f"--batch-size={asked}", "--json", "--quiet")
    assert result.code == 0, result.err
    assert seen == {min(asked, IMAGES)}
    check(run, result.json, asked, min(asked, IMAGES), "few.npz has")


@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("asked", [1000])
def test_a_step_has_no_more_images_than_there_are(
    name: str, asked: int, folder: Path, run: Command
) -> None:
    result = run(*TRAININGS[name], f"--batch-size={asked}", "--json", "--quiet")
    assert result.code == 0, result.err
    check(run, result.json, asked, min(asked, 11), "can be taken of 11 images")


def test_repeats_make_a_step_smaller(folder: Path, run: Command) -> None:
    """A step has three of the 11 images, each of them three times."""
    given = (*TRAININGS["supernet-train"], "--batch-size=12", "--repeats=3", "--json", "--quiet")
    check(run, run(*given).json, 12, 9, "can be taken of 11 images")


def check(run: Command, found: dict[str, Any], asked: int, used: int, reason: str) -> None:
    """Both numbers are in the document, the summary, the report of a finished run and the page."""
    config = json.loads(Path(found["run"], "config.json").read_text())
    assert config.get("batch_size", asked) == asked
    report, page = run("resume", found["run"]).out, Path(found["run"], "report.html").read_text()
    summary = json.loads(Path(found["run"], "summary.json").read_text())
    assert found["shortfalls"] == summary["shortfalls"]
    assert counted(found).get("batch_size") == (None if used == asked else (asked, used))
    assert is_told(report, "batch_size", asked, used) == (used < asked)
    assert is_told(page, "batch_size", asked, used) == (used < asked)
    if used < asked:
        assert reason in " ".join(report.split())


@pytest.mark.parametrize("asked", [1, IMAGES, 1000])
def test_scores_are_of_all_available_images(folder: Path, run: Command, asked: int) -> None:
    (folder / "vit.py").write_text(
        "from timm.models import VisionTransformer\n\n\ndef make():\n"
        "    return VisionTransformer(img_size=224, patch_size=56, embed_dim=8, depth=1, "
        "num_heads=2, num_classes=2)\n"
    )
    given = ("score", "--proxy=snip", "--model=vit:make", "--images=few.npz")
    found = run(*given, f"--batch-size={asked}", "--json").json
    assert counted(found) == ({"batch_size": (asked, IMAGES)} if asked > IMAGES else {})
    text = run(*given, f"--batch-size={asked}").out
    assert is_told(text, "batch_size", asked, IMAGES) == (asked > IMAGES)


@pytest.mark.parametrize("sequences", [1, 3, 5])
def test_a_text_has_no_more_sequences_than_its_length(
    sequences: int, folder: Path, run: Command, seen: set[int]
) -> None:
    (folder / "short.txt").write_text("abcd" * 25)  # 100 bytes, 3 sequences of 33
    given = ("--space=gpt2-nano", "--dataset=cifar10", "--proxy=snip", "--samples=2")
    size = ("--text=short.txt", "--length=32", f"--batch-size={sequences}")
    result = run("search", *given, *size, "--json", "--quiet")
    assert result.code == 0, result.err
    used = min(sequences, 3)
    assert seen == {used}
    check(run, result.json, sequences, used, "short.txt has")


def test_a_model_with_its_own_inputs_has_its_own_batch(folder: Path, run: Command) -> None:
    result = run("score", "--proxy=snip", "--model=mine:model", "--batch-size=3")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "takes its own inputs, which batch_size 3 is not for" in result.err
    found = run("score", "--proxy=snip", "--model=mine:model", "--json").json
    assert found["shortfalls"] == []
