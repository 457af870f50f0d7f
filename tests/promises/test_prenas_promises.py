"""`prenas`: what is preferred for each size, against all candidates ranked here."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.images import save_images
from helpers.shortfalls import counted, is_told
from torch import Tensor

from autoprox.oneshot.prenas.isomer_selection import IsomerSelector
from autoprox.oneshot.prenas.supernet_saliency import measure_saliency
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.autoformer import AutoFormerNano

SPACE = get_space("autoformer-nano")
SIZES = (2_000, 2_400, 2_800, 3_200, 3_600)
PRENAS = ("prenas", "--space", SPACE.name, "--noise", "2", "--dataset", "cifar10")
ASKED = (*PRENAS, "--sizes", "2K:3.6K:0.4K")
CLASSES = 10

Candidates = list[tuple[Architecture, int, float]]  # with parameters and SNIP


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    """All candidates below the greatest size, the most salient first."""
    selector = IsomerSelector(measure_saliency(SPACE, CLASSES, images=2), "paper")
    sized = ((arch, SPACE.params(arch, CLASSES)) for arch in selector.representatives)
    below = [(arch, params) for arch, params in sized if params < max(SIZES)]
    found = [(arch, params, selector.snip.score(arch)) for arch, params in below]
    return sorted(found, key=lambda own: own[2], reverse=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(run: Command, *arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    summary: dict[str, Any] = done.json
    return summary


@pytest.mark.parametrize("per_size", [1, 500])
def test_each_size_has_as_many_as_there_are(
    run: Command, candidates: Candidates, per_size: int
) -> None:
    summary = told(run, *ASKED, "--per-size", str(per_size))
    architectures = [SPACE.architecture(row["arch"]) for row in summary["preferred"]]
    assert [own["size"] for own in summary["sizes"]] == list(SIZES)
    short = {}
    for own in summary["sizes"]:
        best = [arch for arch, params, _ in candidates if params < own["size"]][:per_size]
        assert [architectures[number - 1] for number in own["preferred"]] == best
        assert (own["asked"], own["found"]) == (per_size, len(best))
        if len(best) < per_size:
            short[f"per-size below {own['size'] / 1000:g}K"] = (per_size, len(best))
    total = sum(own["found"] for own in summary["sizes"])
    assert len(set(architectures)) == len(architectures)
    if total > len(architectures):
        short["preferred for all sizes"] = (total, len(architectures))
    assert short
    assert counted(summary) == short
    files = list((Path(summary["run"]) / "preferred").iterdir())
    assert len(files) == len(architectures)
    report = run("resume", summary["run"]).out
    assert all(is_told(report, of, *numbers) for of, numbers in short.items())


def test_a_size_range_is_shown_for_what_is_preferred_for_several(run: Command) -> None:
    summary = told(run, *PRENAS, "--sizes", "3M:5M:1M")
    assert [own["preferred"] for own in summary["sizes"]] == [[1], [1], [1]]
    [row] = summary["preferred"]
    assert row["arch"] == SPACE.largest().to_json()["choices"]
    assert counted(summary) == {"preferred for all sizes": (3, 1), "sizes": (3, 0)}
    report = run("resume", summary["run"]).out
    assert "3M to 5M" in report
    assert is_told(report, "sizes", 3, 0)
    assert "whose largest network has 2.684M parameters" in " ".join(report.split())


def test_a_convolutional_space_tells_what_it_lacks(run: Command) -> None:
    """Its 40 or so smallest networks are all preferred where more are asked for."""
    space = get_space("bignas-nano")
    arguments = ("--space", space.name, "--sizes", "5K:9K:2K", "--per-size", "500")
    summary = told(run, *PRENAS, *arguments)
    params = sorted(row["params"] for row in summary["preferred"])
    for own in summary["sizes"]:
        below = sum(size < own["size"] for size in params)
        assert (own["asked"], own["found"], len(own["preferred"])) == (500, below, below)
        assert counted(summary)[f"per-size below {own['size'] // 1000}K"] == (500, below)


def test_a_resumed_selection_says_the_same(run: Command) -> None:
    summary = told(run, *ASKED, "--per-size", "7")
    path = Path(summary["run"])
    for left in (("summary.json",), ("summary.json", "preferred.json")):
        for name in left:
            (path / name).unlink()
        again = told(run, "resume", str(path))
        assert {**again, "seconds": 0} == {**summary, "seconds": 0}


def test_the_supernet_is_trained_on_all_that_is_preferred(run: Command, folder: Path) -> None:
    """Sizes are those with as many classes as the images have, not as the dataset."""
    save_images(folder / "small.npz")
    arguments = ("--sizes", "2K:2.8K:0.4K", "--per-size", "13", "--dataset", "imagenet")
    training = ("--images", "small.npz", "--epochs", "2", "--batch-size", "32")
    summary = told(run, *PRENAS, *arguments, *training)
    chosen = [row["arch"] for row in summary["preferred"]]
    assert [row["arch"] for row in summary["training"]["subnets"]] == chosen
    assert all(row["params"] < row["size"] for row in summary["preferred"])
    asked, drawn = counted(summary)["different subnets"]
    assert asked == len(chosen) > drawn
    report = run("resume", summary["run"]).out
    assert is_told(report, "different subnets", asked, drawn)


@pytest.mark.parametrize("count", [7])
def test_as_many_images_of_noise_are_seen(
    run: Command, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    seen, forward = [], AutoFormerNano.forward

    def counting(self: AutoFormerNano, images: Tensor) -> Tensor:
        seen.append(len(images))
        return forward(self, images)

    monkeypatch.setattr(AutoFormerNano, "forward", counting)
    told(run, *ASKED, "--noise", str(count))
    assert sum(seen) == count


def test_sizes_with_nothing_below_are_refused(run: Command) -> None:
    done = run(*PRENAS, "--sizes", "1K:1.4K:0.4K")
    assert (done.code, done.out) == (2, "")
    least = SPACE.params(SPACE.smallest(), CLASSES)
    assert f"sizes must go beyond {least}, the least of {SPACE.name}" in done.err
    assert json.dumps(1400) in done.err


def test_a_greatest_size_between_two_steps_is_told(run: Command) -> None:
    summary = told(run, *PRENAS, "--sizes", "20K:110K:40K")
    assert [own["size"] for own in summary["sizes"]] == [20_000, 60_000, 100_000]
    assert counted(summary) == {"greatest size": (110_000, 100_000)}
    assert is_told(run("resume", summary["run"]).out, "greatest size", 110_000, 100_000)
