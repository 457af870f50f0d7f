"""A search scores as many architectures as it is asked to, or all there are, and says so."""

import json
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.shortfalls import counted, is_told

from autoprox.searchspaces import Architecture, get_space

NANO, PIT = get_space("autoformer-nano"), get_space("pit")
PROXY = "sum(mul(width, heads))"  # of the structure alone: no network is built
SEARCH = ("search", "--space", "autoformer-nano", "--dataset", "cifar10", "--proxy", PROXY)
STRATEGIES = {
    "random": ("--samples", "100"),
    "evolution": ("--population", "30", "--tournament", "5", "--steps", "10"),
    "blockwise": ("--population", "20", "--steps", "160"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(summary: dict[str, Any]) -> list[Architecture]:
    """The candidates on record."""
    space = get_space(summary["space"])
    text = Path(summary["run"], "candidates.jsonl").read_text()
    return [space.architecture(json.loads(line)["arch"]) for line in text.splitlines()]


THREE = NANO.params(
    NANO.architecture({"hidden_dim": 16, "depth": 3, "mlp_ratio": [0.5] * 3, "num_heads": [1] * 3}),
    10,
)


def smallest_networks() -> set[Architecture]:
    """All networks that are smaller than every one of three blocks."""
    blocks = list(product(*(NANO.fields[name].options[0] for name in ("mlp_ratio", "num_heads"))))
    found = set()
    for depth, width in product((1, 2), NANO.fields["hidden_dim"].options[0]):
        for layers in product(blocks, repeat=depth):
            ratios, heads = zip(*layers, strict=True)
            choices = {"hidden_dim": width, "depth": depth, "mlp_ratio": list(ratios)}
            found.add(NANO.architecture({**choices, "num_heads": list(heads)}))
    return {arch for arch in found if NANO.params(arch, 10) < THREE}


@pytest.mark.parametrize(
    ("limits", "samples"),
    [
        (("--params", "17K:19K"), 400),
        (("--params", "7K:7.5K"), 1),
        (("--params", "9K:9.4K"), 131),
        (("--match-size", "20K"), 150),
        (("--params", "6K:9K", "--flops", "60K:140K"), 77),
    ],
)
def test_as_many_as_asked_for(limits: Sequence[str], samples: int, run: Command) -> None:
    given = (*SEARCH, *limits, "--samples", str(samples))
    summary = run(*given, "--top", "1", "--json", "--quiet").json
    assert len(set(scored(summary))) == len(scored(summary)) == summary["evaluations"] == samples
    assert summary["shortfalls"] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_there_are(strategy: str, run: Command) -> None:
    existing = smallest_networks()
    assert 10 < len(existing) < 60
    options = ("--params", f":{THREE - 1}", "--strategy", strategy, *STRATEGIES[strategy])
    done = run(*SEARCH, *options, "--json", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert set(scored(done.json)) == existing
    assert len(scored(done.json)) == len(existing)
    asked = 100 if strategy == "random" else {"evolution": 130, "blockwise": 7_970}[strategy]
    assert counted(done.json)["candidates"] == (asked, len(existing))
    report = run("resume", done.json["run"]).out
    assert is_told(report, "candidates", asked, len(existing))
    estimate = run(*SEARCH, *options, "--dry-run", "--json").json["estimate"]
    assert estimate["networks"] == len(existing)


def test_the_pits_of_one_size(run: Command) -> None:
    """55 of 4,320; the others are counted from their networks' shapes one by one."""
    fields = PIT.fields
    stages = product(*fields["depth"].options), product(*fields["num_heads"].options)
    everything = [
        {"base_dim": base, "mlp_ratio": ratio, "depth": list(depth), "num_heads": list(heads)}
        for depth, heads in product(*map(list, stages))
        if heads[1] % heads[0] == heads[2] % heads[1] == 0
        for base, ratio in product(fields["base_dim"].options[0], fields["mlp_ratio"].options[0])
    ]
    assert len(everything) == 4_320
    sizes = [PIT.params(PIT.architecture(choices)) for choices in everything]
    existing = sum(5_880_000 <= size <= 6_120_000 for size in sizes)
    given = ("search", "--space", "pit", "--proxy", PROXY, "--match-size", "6M")
    summary = run(*given, "--samples", "100", "--json", "--quiet").json
    assert counted(summary)["candidates"] == (100, existing)
    assert len(set(scored(summary))) == existing


def write(folder: Path, archs: Sequence[Architecture]) -> Path:
    file = folder / "subnets.json"
    file.write_text(json.dumps([{"arch": arch.to_json()["choices"]} for arch in archs]))
    return file


@pytest.mark.parametrize("samples", [1, 7, 50, 119, 120, 121, 400])
def test_subnets_of_a_file(samples: int, folder: Path, run: Command) -> None:
    rng = random.Random(0)
    archs = [NANO.sample(rng) for _ in range(120)]
    given = (*SEARCH, "--subnets", str(write(folder, archs)), "--samples", str(samples))
    summary = run(*given, "--top", "1", "--json", "--quiet").json
    found = scored(summary)
    assert len(set(found)) == len(found) == min(samples, 120)
    assert set(found) <= set(archs)
    expected = {"candidates": (samples, 120)} if samples > 120 else {}
    assert counted(summary) == expected
    other = scored(run(*given, "--seed", "5", "--json", "--quiet").json)
    assert (set(other) == set(found)) == (samples >= 120)


def test_subnets_that_are_twice_in_a_file_or_outside_the_limits(folder: Path, run: Command) -> None:
    rng = random.Random(0)
    archs = [NANO.sample(rng) for _ in range(40)]
    sizes = sorted(NANO.params(arch, 10) for arch in archs)
    file = write(folder, [*archs, *archs[:5]])
    given = (*SEARCH, "--subnets", str(file), "--params", f":{sizes[12]}", "--samples", "13")
    done = run(*given, "--json", "--quiet")
    assert len(scored(done.json)) == 13
    assert counted(done.json) == {"subnets": (45, 40), "different subnets": (40, 13)}
    report = run("resume", done.json["run"]).out
    assert is_told(report, "subnets", 45, 40)
    assert is_told(report, "different subnets", 40, 13)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_that_was_stopped_scores_the_same(
    strategy: str, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle, in limits that hold less than was asked for."""
    options = ("--params", f":{THREE - 1}", "--strategy", strategy, *STRATEGIES[strategy])
    whole = run(*SEARCH, *options, "--json", "--quiet").json
    lines = Path(whole["run"], "candidates.jsonl").read_text().splitlines(keepends=True)
    stopped = Path(run(*SEARCH, *options, "--name", "stopped", "--json", "--quiet").json["run"])
    (stopped / "summary.json").unlink()
    (stopped / "log.jsonl").write_text("")
    (stopped / "candidates.jsonl").write_text("".join(lines[: len(lines) // 2]))
    again = run("resume", str(stopped), "--json", "--quiet").json
    assert scored(again) == scored(whole)
    assert again["shortfalls"] == whole["shortfalls"]
    assert again["top"] == whole["top"]


def test_limits_without_architectures_name_the_nearest(run: Command) -> None:
    least = NANO.params(NANO.smallest(), 10)
    done = run(*SEARCH, "--params", ":1K")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert f"the nearest params are 2.17K ({least:,})" in done.err
