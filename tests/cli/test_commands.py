"""The commands as a user types them: what they print, where, and with which exit code."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table

import autoprox
from autoprox.benchmarks import data_files
from autoprox.errors import AutoproxError
from autoprox.language import parse_expression
from autoprox.primitives import OPERATIONS

READS = ["mlp.weight", "msa.grad", "ones.mlp.act"]
SMALL = {"population": 4, "iterations": 3, "children": 2, "batch_size": 1, "stride": 2}
SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("AUTOPROX_DATA", raising=False)
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with a benchmark."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(table(), indent=1))
    return tmp_path


@pytest.fixture
def evolve(run: Command) -> Command:
    return lambda *arguments: run("evolve", *small(), *arguments)


def small() -> list[str]:
    """The arguments of an evolution that takes a second."""
    numbers = (f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items())
    return ["--benchmark=mine.json", f"--statistics={','.join(READS)}", *numbers]


def comparable(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k not in ("run", "seconds")}


def only(summary: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the evolution on one space, and how well its formula ranks."""
    [fold] = summary["folds"]
    [quality] = fold["spaces"].values()
    return fold, quality


def test_evolve(evolve: Command, run: Command, folder: Path) -> None:
    result = evolve("--json", "--name", "first")
    assert result.code == 0
    summary = result.json
    figures = {"kendall", "tau_b", "spearman", "pearson", "interval", "regret"}
    figures |= {"partial_tau", "partial_tau_interval", "near_size_tau", "near_size_tau_interval"}
    fold, quality = only(summary)
    scored = [quality, *quality["baselines"].values()]
    for part in (part[name] for part in scored for name in ("train", "test")):
        assert {dataset: set(row) for dataset, row in part.items()} == {
            "wide": figures,
            "deep": figures,
        }
    assert set(quality["baselines"]) >= {"params", "flops", "ridge"}
    assert fold["evaluations"] >= 4 + 3 * 2
    assert sum(fold["invalid"].values()) < fold["evaluations"]
    assert (fold["stopped"], len(fold["islands"])) == (0, 1)
    assert "first" in summary["run"]
    assert json.loads((folder / summary["run"] / "summary.json").read_text()) == {
        k: v for k, v in summary.items() if k != "run"
    }
    shown = run("show", summary["run"], "--json").json
    assert shown["expression"] == summary["expression"]
    assert shown["taus"]["test"]["deep"] == quality["test"]["deep"]["kendall"]
    assert (shown["size_check"], shown["means"]) == (quality["size"], quality["means"])
    told = run("show", summary["run"]).out
    assert "Size check: Kendall tau of the scores with" in told
    assert "Another seed changes its scores" in told or "choices alone" in told
    assert str(autoprox.load_proxy(folder / summary["run"])) == summary["expression"]


def test_report_and_second_run(evolve: Command, run: Command, folder: Path) -> None:
    first = evolve("--name", "same")
    assert first.code == 0
    [path] = folder.glob("runs/*-same")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    second = evolve("--name", "same", "--json").json
    assert Path(second["run"]).resolve() != path
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert second["expression"] in first.out.splitlines()
    assert second["formula"] in first.out
    _, quality = only(second)
    parts = quality["budgets"].values()
    largest = max(own["params"][-1] for part in parts for own in part.values())
    following = (
        f"Next:\nautoprox search --space autoformer-nano --proxy runs/{path.name} "
        f"--params :{largest} --name found"
    )
    assert f"{following}\n" in first.out
    assert "\x1b" not in first.out + first.err
    long = [line for line in first.out.splitlines() if len(line) > 80]
    assert set(long) <= {second["expression"], *following.splitlines()}
    lines = [line.split()[:2] for line in first.out.splitlines()]
    for name, parts in quality["means"].items():
        assert [name, f"{parts['test']['kendall']:.3f}"] in lines
    for name in ("params", "flops", "ridge"):
        assert [name, f"{quality['baselines'][name]['test']['wide']['kendall']:.3f}"] in lines


@pytest.mark.parametrize(
    "more", [(), ("--form", "tree", "--halving", "--islands", "2", "--train", "0.9")]
)
def test_killed_and_resumed(
    more: tuple[str, ...], evolve: Command, run: Command, folder: Path
) -> None:
    """Killed between the log and the checkpoint of an iteration; then as if it hadn't been."""
    (folder / "mine.json").write_text(json.dumps(table(20)))
    whole = evolve("--json", *more).json
    islands = 2 if more else 1
    assert len(only(whole)[0]["islands"]) == islands
    assert (only(whole)[0]["stopped"] > 0) == bool(more)
    code = (
        "import os, signal, sys; from autoprox import cli\n"
        "from autoprox.runs import folder as runs\n"
        "log = runs.Run.log\n"
        "def kill(run, record):\n"
        "    log(run, record)\n"
        "    if record['iteration'] == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "runs.Run.log = kill\n"
        "cli.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "evolve", *small(), "--name", "killed", *more]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    [path] = folder.glob("runs/*-killed")
    unfinished = run("show", str(path))
    assert unfinished.code == 2
    assert f"`autoprox resume {path}` continues it" in unfinished.err
    resumed = run("resume", str(path), "--json").json
    assert comparable(resumed) == comparable(whole)
    lines = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    assert [(line["island"], line["iteration"]) for line in lines] == [
        (island, iteration) for island in range(islands) for iteration in (1, 2, 3)
    ]
    again = run("resume", str(path), "--json").json
    assert comparable(again) == comparable(whole)


BAD = [
    ("--population 1", "population must be a whole number >= 2, but got 1"),
    ("--train 0.01", "a split must leave networks on both sides"),
    ("--memory 0GiB", "memory must be a whole number >= 1, but got 0"),
    ("--memory lots", "a size must be a number of bytes such as 4GiB or 500MB, got 'lots'"),
    (
        "--strategy elite",
        "unknown evolution strategy 'elite' (did you mean elitist?); choose",
    ),
    ("--device gpu", "unknown device 'gpu' (did you mean cpu?); choose from auto, cpu, cuda, mps"),
    ("--label kd", "has neither labels nor subsets"),
    (
        "--datasets wid",
        "mine.json has no dataset 'wid' (did you mean wide?); choose from wide, deep",
    ),
    ("--datasets wide,wide", "each dataset must be named once"),
    ("--dataset-weights 1", "but got [1.0] for 2 datasets"),
    ("--dataset-weights 1,x", "dataset_weights must be numbers separated by commas, but got '1,x'"),
    (
        "--dataset-weights 0,0",
        "dataset_weights must be one finite number >= 0 a dataset, not all 0",
    ),
    ("--statistics msa.grd", "unknown name `msa.grd`; nearest: `msa.grad`"),
    ("--space pit", "space must be the space that was asked for, pit"),
    ("--space autoformer-nao", "did you mean autoformer-nano?"),
    ("--images nowhere", "nowhere"),
    ("--name a/b", "a run's name must be"),
    ("--benchmark nowhere", "unknown benchmark 'nowhere'"),
    ("--benchmark nowhere.json", "nowhere.json must be a JSON file, but there is no such file"),
    ("--seed x", "Invalid value for '--seed'"),
    ("--sed 1", "--seed"),  # among those that are meant, in words of typer's
    ("extra", "unexpected extra argument"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[arguments for arguments, _ in BAD])
def test_bad_option(arguments: str, message: str, evolve: Command, folder: Path) -> None:
    result = evolve(*arguments.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert message in result.err
    assert [path.name for path in folder.iterdir()] == ["mine.json"]


def broken(change: Callable[[dict[str, Any]], Any]) -> str:
    content = table()
    change(content)
    return json.dumps(content, indent=1)


TABLES = {
    "cut": (json.dumps(table(), indent=1)[:900], r"t.json:\d+: the file must"),
    "nan": (
        broken(lambda t: t["architectures"][3]["scores"].update(wide=float("nan"))),
        r"t.json:\d+: architectures\[3\].scores.wide must be a finite number, but got NaN",
    ),
    "arch": (
        broken(lambda t: t["architectures"][2]["arch"].update(hidden_dim=33)),
        r"t.json:\d+: architectures\[2\].arch: hidden_dim must be one of 16, .* but got 33",
    ),
    "twice": (
        broken(lambda t: t["architectures"].append(t["architectures"][0])),
        r"t.json:\d+: architectures\[12\].arch must differ .* equals t.json:\d+: arch.*\[0\]",
    ),
    "few": (
        broken(lambda t: t.update(architectures=t["architectures"][:9])),
        r"architectures must be at least 10 to correlate over, but are 9",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_table(name: str, run: Command, folder: Path) -> None:
    content, message = TABLES[name]
    (folder / "t.json").write_text(content)
    result = run("evolve", "--benchmark", "t.json")
    assert (result.code, result.out) == (2, "")
    with pytest.raises(AutoproxError, match=message):
        raise AutoproxError(result.err)
    assert sorted(path.name for path in folder.iterdir()) == ["mine.json", "t.json"]


@pytest.fixture
def finished(evolve: Command) -> str:
    """The folder of a run."""
    return str(evolve("--json").json["run"])


def test_resume_keeps_its_configuration(run: Command, finished: str) -> None:
    result = run("resume", finished, "--teacher", "a:b")
    assert result.code == 2
    kept = "workers, backend, scheduler, cache, cache_limit, cache_age, memory"
    assert f"but for {kept}, but got teacher" in result.err


def test_one_resume_for_every_kind(run: Command, evolve: Command, finished: str) -> None:
    shown = run("resume", finished, "--workers", "1", "--json").json
    assert shown == autoprox.load_run(finished).to_dict()
    assert run("evolve", "--resume", finished).err.startswith("error: No such option: --resume")
    assert run("resume", finished, "--memory", "x").code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 3}', "config.json must say the kind of the run, but says None"),
        ('{"format": 3, "kind": "evolv"}', "must be one of evolve, rank"),
        (
            '{"format": 3, "kind": "evolve", "sed": 1}',
            "config.json: unknown option 'sed' (did you mean seed?)",
        ),
        (
            '{"format": 3, "kind": "evolve", "seed": "1"}',
            "config.json: seed must be a whole number >= 0",
        ),
        ("[]", "must be an object"),
        ("{", "config.json:1: the file must be complete JSON"),
    ],
)
def test_resume_of_a_broken_configuration(
    content: str, message: str, run: Command, folder: Path
) -> None:
    for name in ("environment.json", "log.jsonl"):
        (folder / name).write_text("{}\n")
    (folder / "config.json").write_text(content)
    result = run("resume", str(folder))
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_absent_data(run: Command, folder: Path) -> None:
    result = run("evolve", "--datasets", "cifar100,flowers,chaoyang")
    assert result.code == 2
    for part in ("gt_autoformer.pth", "`autoprox bench fetch vit-bench-101`", "--benchmark"):
        assert part in result.err
    assert not (folder / "runs").exists()


def test_show_a_published_proxy(run: Command) -> None:
    result = run("show", "snip")
    assert result.code == 0
    for part in (SNIP, "Network", "6 nodes, depth 4", "all.grad, all.weight", "Lee et al., SNIP"):
        assert part in result.out
    assert "data forward and backward" in result.out
    assert "\x1b" not in result.out
    shown = run("show", SNIP, "--json").json
    assert shown["expression"] == SNIP
    assert shown["passes"] == {"data": "forward and backward"}
    assert (shown["size"], shown["depth"], shown["citation"]) == (6, 4, None)


def test_show_the_operations(run: Command) -> None:
    listed = run("show", "--operations", "--json").json
    assert {row["name"] for row in listed} == {*OPERATIONS}
    norm = next(row for row in listed if row["name"] == "nuclear_norm")
    assert (norm["types"], norm["formula"]) == (["Matrix -> Layers"], "‖x‖⋆")
    shown = run("show", "--operations").out
    assert max(map(len, shown.splitlines())) <= 80
    assert {*OPERATIONS} <= {*shown.split()}


def test_show_one_form(run: Command) -> None:
    assert run("show", "sum(width)", "--tree").out == ("sum: Network\n`-- width: Layers[block]\n")
    latex = run("show", "snip", "--latex").out
    assert latex.startswith(r"\sum")
    assert latex.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "snap"], "column 1: unknown name `snap`; nearest: `snip`"),
        (["show", "sum("], "column 5: expected an operation"),
        (["show", "sum(sum(width))"], "column 1: `sum` needs a Matrix or Layers, got Network"),
        (["show", "add(width, msa.grad)"], "`add` needs two values of one type"),
        (["show", ""], "column 1: expected an operation"),
        (["resume", "none"], "a run must be a folder, but none does not exist"),
        (["resume", "."], "a run must hold config.json, but . lacks config.json"),
        (["show", "runs/none"], "a run must be a folder, but runs/none does not exist"),
        (["show", "none.json"], "none.json must be a JSON file, but there is no such file"),
        (["show", "mine.json"], "mine.json:1: the file must have the key version"),
        (["show", "."], "a run must hold config.json"),
        (
            ["show", "snip", "--tree", "--json"],
            "at most one of --latex, --tree, --format and --json",
        ),
        (["show"], "either a proxy or --operations must be given"),
        (["show", "snip", "--operations"], "either a proxy or --operations must be given"),
        (["show", "--operations", "--tree"], "--operations has no other format than --json"),
        (
            ["evolv"],
            "No such command 'evolv'. Did you mean 'evolve'; choose from evolve, ",
        ),
        (["bench"], "Missing command; choose from list, info, fetch"),
        (["bench", "info", "vit-bench"], "did you mean vit-bench-101?"),
    ],
)
def test_wrong_use(arguments: list[str], message: str, run: Command) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert message in result.err


def test_bench(run: Command) -> None:
    listed = run("bench", "list", "--json").json
    [vit] = [found for found in listed if found["name"] == "vit-bench-101"]
    assert not vit["installed"]
    assert vit == run("bench", "info", "vit-bench-101", "--json").json
    for found in listed:
        assert found["name"] in run("bench", "list").out
        details = run("bench", "info", found["name"]).out
        for name in (*found["spaces"], *found["datasets"], found["licence"]):
            assert name in details


def test_fetch_without_a_network(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "RETRIES", 0)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    result = run("bench", "fetch", "vit-bench-101")
    assert (result.code, result.out) == (1, "")
    assert "could not be downloaded: " in result.err


def test_python() -> None:
    assert str(autoprox.load_proxy("snip")) == SNIP
    assert autoprox.load_proxy("sum(width)") == parse_expression("sum(width)")
    with pytest.raises(AutoproxError, match=r"a proxy is a Network, got Layers\[block\]"):
        autoprox.load_proxy("log(width)")
    with pytest.raises(AutoproxError, match=r"unknown option 'iteration'.*mean iterations"):
        autoprox.evolve(iteration=3)
    with pytest.raises(AttributeError, match="no attribute 'evolv'"):
        autoprox.evolv  # noqa: B018


def test_python_evolves_like_the_command(evolve: Command, folder: Path) -> None:
    summary = evolve("--json").json
    seen: list[str] = []
    same = autoprox.evolve(
        runs=folder / "python",
        progress=lambda task, *_: seen.append(task),
        benchmark=folder / "mine.json",
        statistics=READS,
        **SMALL,
    )
    assert comparable(same.to_dict()) == comparable(summary)
    assert str(same.proxy) == summary["expression"]
    assert list(dict.fromkeys(seen)) == ["run", "collect", "evolve", "measure"]
    assert same.path.parent == folder / "python"
