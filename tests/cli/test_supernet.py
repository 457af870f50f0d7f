"""`autoprox supernet` and `autoprox prenas` as a user types them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import Command
from helpers.images import save_images
from safetensors import safe_open
from safetensors.torch import load_file

from autoprox.benchmarks import load_benchmark
from autoprox.inputs.training_datasets import load_images
from autoprox.searchspaces import architecture_from_json, get_space
from autoprox.training.recipes import accuracy

SPACE = get_space("autoformer-nano")
CHOICES = {"hidden_dim": 16, "depth": 1, "mlp_ratio": [1.0], "num_heads": [2]}
TRAIN = ("supernet", "train", "--space", SPACE.name, "--images", "small.npz", "--batch-size", "32")
PRENAS = ("prenas", "--space", SPACE.name, "--noise", "2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with images, an architecture and a list of one."""
    monkeypatch.chdir(tmp_path)
    save_images(tmp_path / "small.npz")
    (tmp_path / "arch.json").write_text(json.dumps({"space": SPACE.name, "choices": CHOICES}))
    (tmp_path / "list.json").write_text(json.dumps([{"arch": CHOICES}]))
    return tmp_path


def trained(run: Command, *options: str) -> dict[str, Any]:
    done = run(*TRAIN, "--epochs", "1", *options, "--json")
    assert done.code == 0, done.err
    summary: dict[str, Any] = done.json
    return summary


def test_a_supernet_from_training_to_a_table_and_a_network(run: Command, folder: Path) -> None:
    summary = trained(run, "--sampler", "sandwich")
    assert [row["params"] for row in summary["subnets"]] == [
        SPACE.params(arch, 3) for arch in (SPACE.smallest(), SPACE.largest())
    ]
    done = run("supernet", "eval", summary["run"], "--samples", "10", "--json")
    assert done.code == 0, done.err
    benchmark = load_benchmark(Path(done.json["file"]))
    assert (benchmark.space, benchmark.classes) == (SPACE.name, {"small": 3})
    arch = benchmark.architectures[3]
    (folder / "arch.json").write_text(json.dumps(arch.to_json()))
    done = run(
        "supernet", "extract", summary["run"], "--arch", "arch.json", "--out", "a.safetensors"
    )
    assert done.code == 0, done.err
    network = SPACE.network(arch, 3)
    network.load_state_dict(load_file("a.safetensors"))
    data = load_images(Path("small.npz"), SPACE.input_shape)
    found = accuracy(network.eval(), data.held_out_images, data.held_out_labels)
    assert found == pytest.approx(benchmark.scores["small"][3], abs=1e-3)
    with safe_open("a.safetensors", "pt") as file:
        assert architecture_from_json(json.loads(file.metadata()["architecture"])) == arch


@pytest.mark.parametrize("runs", ["runs", "my runs #1?"])
def test_processes_meet_in_a_folder_of_any_relative_name(run: Command, runs: str) -> None:
    given = ("--sampler", "single", "--subnets", "list.json", "--runs", runs)
    alone, together = (trained(run, *given, "--processes", n)["subnets"] for n in ("1", "2"))
    assert [row["params"] for row in alone] == [row["params"] for row in together]
    assert not list(Path(runs).rglob(".meeting*"))


def test_reports_fit_the_terminal(run: Command) -> None:
    done = run(*TRAIN, "--epochs", "1", "--sampler", "single", "--subnets", "list.json")
    assert done.code == 0, done.err
    assert "accuracy" in done.out
    assert "Next:\nautoprox supernet eval runs/" in done.out
    path = done.out.split("Run: ")[1].splitlines()[0]
    assert "small.npz" not in done.out
    assert "table" in run("supernet", "eval", path, "--samples", "10").out
    done = run(*PRENAS, "--sizes", "20K:60K:20K")
    assert done.code == 0, done.err
    rows = [line for line in done.out.splitlines() if "hidden_dim" in line]
    assert 1 <= len(rows) <= 3


def losses(summary: dict[str, Any]) -> list[float]:
    lines = (Path(summary["run"]) / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


KILLED = """
import os, signal, sys
from autoprox import runner
from autoprox.configurations.supernets import SupernetTrainConfig
def progress(task, done, total, note):
    if task == "run": print(note, flush=True)
    if task == "train" and done == 2: os.kill(os.getpid(), signal.SIGKILL)
runner.start(SupernetTrainConfig(space="autoformer-nano", images="small.npz", batch_size=32,
    epochs=3, sampler="uniform"), progress)
"""


def test_a_killed_training_goes_on_with_the_same_result(run: Command) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    killed = Path(done.stdout.strip())
    assert len((killed / "log.jsonl").read_text().splitlines()) == 2  # of which one has weights
    resumed = run("resume", str(killed), "--json")
    assert resumed.code == 0, resumed.err
    whole = trained(run, "--epochs", "3")
    assert resumed.json["loss"] == whole["loss"]
    assert resumed.json["subnets"] == whole["subnets"]
    first, other = (load_file(Path(s["weights"])) for s in (resumed.json, whole))
    assert all(torch.equal(first[name], other[name]) for name in other)
    assert losses(resumed.json) == losses(whole)


def test_processes_that_are_interrupted_say_so_in_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "autoprox", *TRAIN, "--processes", "2", "--epochs", "9999"]
    training = subprocess.Popen(
        [*command, "--quiet"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until = time.monotonic() + 300  # where many tests share the cores
        while not any(log.read_text() for log in folder.glob("runs/2*/log.jsonl")):
            assert training.poll() is None, training.communicate()
            assert time.monotonic() < until
            time.sleep(0.1)
        training.send_signal(signal.SIGINT)
        _, said = training.communicate(timeout=300)
    finally:
        training.kill()
    assert training.returncode == 130
    assert [line.split(";")[0] for line in said.splitlines()] == ["interrupted"]


def test_an_evaluation_goes_on(run: Command) -> None:
    supernet = trained(run)["run"]
    whole = run("supernet", "eval", supernet, "--samples", "12", "--json").json
    path = Path(whole["run"])
    (path / "summary.json").unlink()
    table = (path / "table.json").read_bytes()
    (path / "table.json").unlink()
    lines = (path / "accuracies.jsonl").read_bytes()
    (path / "accuracies.jsonl").write_bytes(lines[: len(lines) // 2])
    again = run("resume", str(path), "--json").json
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}
    assert (path / "table.json").read_bytes() == table
    assert len((path / "accuracies.jsonl").read_text().splitlines()) == 12


def test_prenas_prefers_and_trains(run: Command) -> None:
    options = ("--sizes", "20K:100K:40K", "--per-size", "2")
    training = ("--images", "small.npz", "--epochs", "1", "--batch-size", "32")
    done = run(*PRENAS, *options, *training, "--json")
    assert done.code == 0, done.err
    summary = done.json
    path = Path(summary["run"])
    for number, row in enumerate(summary["preferred"], start=1):
        arch = architecture_from_json(
            json.loads((path / "preferred" / f"{number}.json").read_text())
        )
        assert arch.to_json()["choices"] == row["arch"]
        assert row["params"] == SPACE.params(arch, 3) < row["size"]
    assert [row["arch"] for row in summary["training"]["subnets"]] == [
        row["arch"] for row in summary["preferred"]
    ]
    again = trained(run, "--sampler", "preferred", "--subnets", str(path / "preferred.json"))
    assert again["subnets"] == summary["training"]["subnets"]
    cut = Path("runs/cut")
    shutil.copytree(path, cut)
    for name in ("summary.json", "supernet.safetensors", "preferred.json"):
        (cut / name).unlink()
    resumed = run("resume", str(cut), "--json").json
    assert resumed["preferred"] == summary["preferred"]
    assert resumed["training"]["subnets"] == summary["training"]["subnets"]
    done = run("supernet", "eval", str(path), "--samples", "10")
    assert done.code == 0, done.err


def test_a_convolutional_space_from_the_choice_to_a_network(run: Command) -> None:
    """What is taken out has the batch norms with which it was evaluated."""
    space = get_space("bignas-nano")
    options = ("--space", space.name, "--noise", "2", "--sizes", "20K:110K:40K")
    training = ("--images", "small.npz", "--epochs", "1", "--batch-size", "32")
    summary = run("prenas", *options, *training, "--json").json
    assert [row["size"] for row in summary["preferred"]] == [20_000, 60_000, 100_000]
    file = Path(summary["run"]) / "preferred" / "2.json"
    done = run("supernet", "extract", summary["run"], "--arch", str(file), "--out", "b.safetensors")
    assert done.code == 0, done.err
    network = space.network(architecture_from_json(json.loads(file.read_text())), 3)
    network.load_state_dict(load_file("b.safetensors"))
    data = load_images(Path("small.npz"), space.input_shape)
    found = accuracy(network.eval(), data.held_out_images, data.held_out_labels)
    assert found == pytest.approx(summary["training"]["subnets"][1]["accuracy"])
    done = run("prenas", *options, "--normaliser", "released")
    assert done.code == 2
    assert "the normaliser released compares isomers, of which bignas-nano has hardly" in done.err


OTHER = {"hidden_dim": 192, "depth": 1, "mlp_ratio": [4.0], "num_heads": [3]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*TRAIN, "--space", "pit"),
            "a supernet needs a space whose networks are slices of the largest, which pit is not",
        ),
        (
            (*TRAIN, "--sampler", "sandwhich"),
            "unknown sampler 'sandwhich' (did you mean sandwich?)",
        ),
        (
            (*TRAIN, "--sampler", "preferred"),
            "preferred must be given at least 1 subnets, but got 0",
        ),
        (
            (*TRAIN, "--subnets", "list.json"),
            "the sampler uniform must be given 0 subnets, but got",
        ),
        (
            (*TRAIN, "--sampler", "single", "--subnets", "other.json"),
            "other.json: [0]: hidden_dim must be one of 16",
        ),
        ((*TRAIN, "--subnets", "none.json"), "none.json"),
        (
            (*TRAIN, "--sampler", "preferred", "--subnets", "foreign.json"),
            "foreign.json: space must be autoformer-nano, but got pit",
        ),
        ((*TRAIN, "--images", "tiny.npz"), "images must be at least 4 x 4 pixels, a patch of the"),
        ((*TRAIN, "--images", "none.npz"), "none.npz"),
        (
            (*TRAIN, "--processes", "3"),
            "batch_size must be a multiple of processes, but got 32 and 3",
        ),
        ((*TRAIN, "--erasing", "1"), "erasing must be a number >= 0 and < 1, but got 1"),
        (
            (*PRENAS, "--sizes", "20K:60K"),
            "sizes must be LOW:HIGH:STEP, for example 5M:12M:1M, but",
        ),
        ((*PRENAS, "--sizes", "1K:2K:1K"), "sizes must go beyond "),
        (
            (*PRENAS, "--sizes", "1K:9K:1K", "--normaliser", "x"),
            "unknown normaliser 'x'; choose from",
        ),
        ((*PRENAS, "--sizes", "1K:9K:1K", "--space", "pit"), "choose from autoformer-nano"),
        ((*PRENAS, "--sizes", "1K:9K:1K", "--dataset", "x"), "unknown dataset 'x'"),
        (("supernet", "eval", "runs"), "a run must hold config.json"),
        (("supernet", "eval", "none"), "a run must be a folder, but none does not exist"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Command, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "foreign.json").write_text(json.dumps({"space": "pit", "choices": {}}))
    (folder / "other.json").write_text(json.dumps([{"arch": OTHER}]))
    (folder / "runs").mkdir()
    save_images(folder / "tiny.npz", side=3)
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert os.listdir(folder / "runs") == []


def test_bad_input_to_what_uses_a_supernet(run: Command, folder: Path) -> None:
    supernet = trained(run)["run"]
    save_images(folder / "four.npz", classes=4)
    (folder / "foreign.json").write_text(json.dumps({"space": "pit", "choices": {}}))
    extract = ("supernet", "extract", supernet, "--arch")
    for arguments, message in (
        (("supernet", "eval", supernet, "--samples", "9"), "samples must be a whole number >= 10"),
        (
            ("supernet", "eval", supernet, "--images", "four.npz"),
            "the images must be of 3 classes, as the supernet is, but four.npz has 4",
        ),
        (
            (*extract, "foreign.json", "--out", "x"),
            "foreign.json: space must be autoformer-nano, but got pit",
        ),
        (
            (*extract, "arch.json", "--out", "no/x"),
            "must be written to a file in a folder, but got",
        ),
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert message in done.err
    weights = Path(supernet) / "supernet.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    done = run("supernet", "eval", supernet)
    assert done.code == 2
    assert "supernet.safetensors must be a supernet's checkpoint, but" in done.err
    weights.unlink()
    done = run("supernet", "eval", supernet)
    assert "a supernet must have been trained for an epoch, but" in done.err
    searched = run(
        "search", "--space", SPACE.name, "--proxy", "sum(width)", "--samples", "3", "--json"
    )
    done = run("supernet", "eval", searched.json["run"])
    assert "a run of `autoprox supernet train` or `autoprox prenas --images` is needed" in done.err
