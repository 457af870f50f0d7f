"""Estimates of a task's time."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table

from autoprox.commands import search
from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig, SearchConfig
from autoprox.evaluation.time_estimate import TimeEstimate, format_duration


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1, "1 s"), (40, "40 s"), (240, "4 min"), (9000, "2.5 h")]
)
def test_times_in_words(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_an_estimate_is_a_line() -> None:
    found = TimeEstimate(
        networks=60, datasets=3, seconds=240.0, cache=400_000_000, free=2_000_000_000
    )
    line = "60 networks x 3 datasets, about 4 min to measure them, cache 400MB of 2GB free"
    assert str(found) == found.text == line


def test_stages_are_part_of_the_line() -> None:
    stages = {"collect": 100.0, "evolve": 60.0}
    found = TimeEstimate(networks=60, datasets=3, seconds=160.0, stages=stages)
    assert str(found) == "60 networks x 3 datasets, about 3 min (collect 2 min, evolve 60 s)"


def test_the_estimate_of_an_evolution_follows_its_size() -> None:
    def stages(**options: Any) -> Mapping[str, float]:
        given = {"space": "autoformer-nano", "datasets": ("cifar10",), "workers": 1, **options}
        task = EvolveTask(EvolveConfig(batch_size=2, **given))
        with task.pool:
            estimate = task.estimate()
        assert estimate is not None
        return estimate.stages

    long, short = stages(iterations=400, zoo=("none",)), stages(iterations=4, zoo=("grasp",))
    assert long["evolve"] > 10 * short["evolve"]
    assert short["collect"] > long["collect"]  # published proxies are measured then
    many = stages(population=20_000, iterations=4, zoo=("none",))  # of power laws, terms to draw
    assert many["evolve"] > 4 * short["evolve"]
    tree = stages(form="tree", iterations=400, zoo=("none",))
    assert long["measure"] > 2 * tree["measure"]  # the terms of a committee


def test_a_dry_run_estimates_time_and_cache(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    asked = [
        "--benchmark=mine.json",
        "--statistics=msa.weight",
        "--stride=1",
        "--json",
        "--dry-run",
    ]
    found = run("evolve", *asked).json["estimate"]
    assert (found["networks"], found["datasets"]) == (7, 2)  # 60 % of 12
    assert found["cache"] > 0
    assert found["cache"] % (7 * 4) == 0  # float32 matrices of seven networks
    assert found["free"] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.5)
    assert set(found["stages"]) == {"collect", "evolve", "measure"}
    assert found["seconds"] == pytest.approx(sum(found["stages"].values()))
    assert min(found["stages"].values()) > 0
    assert not (tmp_path / "runs").exists()
    assert not list((tmp_path / "cache").rglob("*.json"))
    assert (
        "12 networks x 2 datasets"
        in run("rank", "--benchmark=mine.json", "--proxies=params", "--dry-run").out
    )
    assert run("evolve", "--dry-run", "--train=2").code == 2


def test_quiet_shows_no_estimate(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["search", "--space=autoformer-nano", "--proxy=sum(width)", "--samples=5"]
    assert run(*asked, "--quiet").err == ""
    assert "estimate  5 networks x 1 dataset, about " in run(*asked).err


def test_the_first_candidate_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    task = search.SearchTask(SearchConfig(space="autoformer-nano", proxy="sum(width)", samples=50))
    seconds = iter([3.0, 0.01])

    class Scorer:
        def measure(self, architectures: object, take: object) -> None:
            time.sleep(next(seconds) / 10)

    monkeypatch.setattr(task, "scorer", Scorer)
    found = task.estimate()
    assert found is not None
    assert found.seconds < 50 * 0.3 / 2
