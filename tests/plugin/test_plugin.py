"""A package with an item of each kind, installed beside autoprox and used on the command line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.commands import Result

PACKAGE = Path(__file__).parent / "package"
COMMANDS = {
    "form": "show smoothness --format words",
    "function": "show first-loss --json",
    "letter": "show sum(sum(abs(mlp.saliency)))",
    "latex": "show sum(sum(abs(mlp.saliency))) --format latex",
    "rank": "rank --proxies smoothness,first-loss --datasets fashion-mnist --batch-size 2 --json",
    "benchmark": "rank --benchmark mini-bench --proxies sum(sum(abs(all.saliency))),snip "
    "--batch-size 2 --json",
    "evolve": "evolve --strategy newcomers --datasets fashion-mnist --batch-size 2 --iterations 2 "
    "--population 20 --children 4 --json",
    "evolve set": "evolve --strategy newcomers --set share=0.5 --datasets fashion-mnist "
    "--batch-size 2 --iterations 2 --population 20 --children 4 --json",
    "wrong evolve name": "evolve --strategy newcomers --set shaer=0.5 --datasets fashion-mnist",
    "search": "search --space autoformer-mini --proxy smoothness --dataset cifar10 "
    "--strategy single --samples 4 --json",
    "set": "search --space autoformer-mini --proxy smoothness --dataset cifar10 --strategy single "
    "--set samples=2 --set each=3 --set label=7 --json",
    "wrong name": "search --space autoformer-mini --proxy smoothness --strategy single "
    "--set eech=3",
    "wrong value": "search --space autoformer-mini --proxy smoothness --strategy single "
    "--set each=many",
}
WRONG = {
    "wrong evolve name": "unknown option 'shaer' of newcomers (did you mean share?)",
    "wrong name": "unknown option 'eech' of single (did you mean each?); choose from each, label, ",
    "wrong value": "each must be a whole number >= 1, but got 'many'",
}
# Runs several commands in one process, for to start one takes longer than they do.
PROGRAM = """
import contextlib, io, json, sys
from autoprox import cli

def run(arguments):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(arguments)
        except SystemExit as exit_:
            code = exit_.code or 0
    out.seek(0), err.seek(0)
    return code, out.read(), err.read()

found = {name: run(line.split()) for name, line in json.load(sys.stdin).items()}
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package was installed."""
    folder = tmp_path_factory.mktemp("plugin")
    source, target = shutil.copytree(PACKAGE, folder / "source"), folder / "installed"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", target, source]
    subprocess.run(list(map(str, command)), check=True)
    return target


def results(plugins: Path, folder: Path, commands: Mapping[str, str]) -> dict[str, Result]:
    """What the program answers in a folder with these packages installed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(plugins)},
        cwd=folder,
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {name: Result(*found) for name, found in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def done(plugins: Path, folder: Path) -> dict[str, Result]:
    found = results(plugins, folder, COMMANDS)
    codes = {name: 2 if name in WRONG else 0 for name in COMMANDS}
    assert {name: result.code for name, result in found.items()} == codes, found
    assert not any("left out" in result.err for result in found.values())
    return found


def test_its_form_writes_its_proxy_with_its_operation(done: dict[str, Result]) -> None:
    assert done["form"] == (0, "sum mean softsign all.grad\n", "")


def test_its_function_is_shown(done: dict[str, Result]) -> None:
    found = done["function"].json
    assert (found["formula"], found["citation"]) == ("-L", "Nobody, 2026")


def test_its_proxies_are_ranked(done: dict[str, Result]) -> None:
    rows = done["rank"].json["rows"]
    assert {row["proxy"] for row in rows} == {"smoothness", "first-loss"}
    assert all(row["kendall"] is not None for row in rows)


def test_its_statistic_is_shown_by_its_letter(done: dict[str, Result]) -> None:
    assert "│Sₘₗₚ│" in done["letter"].out
    assert "weights times their gradients" in done["letter"].out
    assert r"\left|S^{\mathrm{mlp}}_{l}\right|" in done["latex"].out


def test_its_statistic_is_measured_on_its_benchmark(done: dict[str, Result]) -> None:
    # On the same networks, snip is the same number by another way.
    found = done["benchmark"].json
    saliency, snip = found["rows"]
    assert found["networks"] == 12
    assert saliency["kendall"] == snip["kendall"] is not None


def test_its_evolution_strategy_evolves(done: dict[str, Result]) -> None:
    assert done["evolve"].json["folds"][0]["evaluations"] >= 4 + 2 * 10


def test_an_option_of_its_evolution_strategy_is_set(done: dict[str, Result], folder: Path) -> None:
    for name, share in (("evolve", 1.0), ("evolve set", 0.5)):
        config = json.loads((folder / done[name].json["run"] / "config.json").read_text())
        assert config["set"] == {"share": share}


def test_its_search_strategy_searches_its_space(done: dict[str, Result]) -> None:
    assert done["search"].json["evaluations"] == 4


def test_options_of_its_search_strategy_are_set(done: dict[str, Result], folder: Path) -> None:
    """They are in the run's config: one that is resumed goes on with them."""
    found = done["set"].json
    assert found["evaluations"] == 2 * 3
    config = json.loads((folder / found["run"] / "config.json").read_text())
    assert config["set"] == {"samples": 2, "each": 3, "label": "7"}


def test_wrong_options_are_refused_with_the_nearest_name(done: dict[str, Result]) -> None:
    for name, message in WRONG.items():
        assert done[name].err.count("\n") == 1
        assert message in done[name].err


SUITES = """
import autoprox_example as example
from autoprox.inputs.batch_loading import load_image_batch
from autoprox.testing import *

check_operation(example.softsign)
check_statistic(example.SALIENCY)
check_benchmark(example.BENCHMARK)
check_space(example.MINI)
check_proxy(example.SMOOTHNESS)
network = example.MINI.build(example.MINI.largest(), classes=4, seed=1)
batch = load_image_batch("noise", example.MINI.input_shape, 2, 0, classes=4)
check_function_proxy(example.first_loss, network, batch)
check_evolution_strategy(example.NEWCOMERS)
check_search_strategy(example.SINGLE)
check_exporter(example.words)
"""


def test_its_author_can_run_the_suites(plugins: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(plugins)}
    subprocess.run([sys.executable, "-W", "error", "-c", SUITES], env=environment, check=True)


def test_a_package_that_cannot_be_loaded_is_a_warning_that_names_it(
    plugins: Path, tmp_path: Path
) -> None:
    broken = shutil.copytree(plugins, tmp_path / "installed")
    (broken / "autoprox_example" / "__init__.py").write_text("import nothing_there\n")
    found = results(broken, tmp_path, {"its": COMMANDS["form"], "other": "show snip --format text"})
    assert found["its"].code == 2
    reason = "of autoprox-example is left out: ModuleNotFoundError: No module named 'nothing_there'"
    for item in ("autoprox.proxies 'smoothness'", "autoprox.operations 'softsign'"):
        assert f"PluginWarning: {item} {reason}" in found["its"].err
    assert found["other"][:2] == (0, "sum(sum(abs(mul(all.weight, all.grad))))\n")
