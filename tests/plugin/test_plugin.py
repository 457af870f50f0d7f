"""A package with an item of each kind, installed beside autoprox and used on the command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent / "package"
Done = subprocess.CompletedProcess[str]


def installed(source: Path, target: Path) -> Path:
    """The folder into which a package was installed."""
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", target, source]
    subprocess.run(list(map(str, command)), check=True)
    return target


def run(plugins: Path, *arguments: str) -> Done:
    """The program with these packages installed."""
    return subprocess.run(
        [sys.executable, "-m", "autoprox", *arguments],
        env={**os.environ, "PYTHONPATH": str(plugins)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(PACKAGE, folder / "source")
    return installed(source, folder / "installed")


def summary(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_its_form_writes_its_proxy_with_its_operation(plugins: Path) -> None:
    done = run(plugins, "show", "smoothness", "--form", "words")
    assert (done.stdout, done.stderr) == ("sum mean softplus all.grad\n", "")


def test_its_function_is_shown(plugins: Path) -> None:
    found = summary(run(plugins, "show", "first-loss", "--json"))
    assert (found["formula"], found["citation"]) == ("-L", "Nobody, 2026")


def test_its_proxies_are_ranked(plugins: Path, tmp_path: Path) -> None:
    given = ("--proxies", "smoothness,first-loss", "--datasets", "digits", "--batch-size", "2")
    found = summary(run(plugins, "rank", *given, "--json", "--runs", str(tmp_path)))
    assert {row["proxy"] for row in found["rows"]} == {"smoothness", "first-loss"}
    assert all(row["kendall"] is not None for row in found["rows"])


def test_its_statistic_is_shown_by_its_letter(plugins: Path) -> None:
    done = run(plugins, "show", "sum(sum(abs(mlp.saliency)))")
    assert done.returncode == 0, done.stderr
    assert "│Sₘₗₚ│" in done.stdout
    assert "weights times their gradients" in done.stdout
    done = run(plugins, "show", "sum(sum(abs(mlp.saliency)))", "--form", "latex")
    assert r"\left|S^{\mathrm{mlp}}_{l}\right|" in done.stdout


def test_its_statistic_is_measured_on_its_benchmark(plugins: Path, tmp_path: Path) -> None:
    # On the same networks, snip is the same number by another way.
    given = ("--benchmark", "mini-bench", "--proxies", "sum(sum(abs(all.saliency))),snip")
    found = summary(
        run(plugins, "rank", *given, "--batch-size", "2", "--json", "--runs", str(tmp_path))
    )
    saliency, snip = found["rows"]
    assert found["networks"] == 12
    assert saliency["kendall"] == snip["kendall"] is not None


def test_its_evolution_strategy_evolves(plugins: Path, tmp_path: Path) -> None:
    given = ("--strategy", "newcomers", "--datasets", "digits", "--batch-size", "2")
    small = ("--iterations", "2", "--population", "4")
    found = summary(run(plugins, "evolve", *given, *small, "--json", "--runs", str(tmp_path)))
    assert found["evaluations"] >= 4 + 2 * 10


def test_its_search_strategy_searches_its_space(plugins: Path, tmp_path: Path) -> None:
    given = ("--space", "autoformer-mini", "--proxy", "smoothness", "--dataset", "cifar10")
    single = ("--strategy", "single", "--samples", "4")
    found = summary(run(plugins, "search", *given, *single, "--json", "--runs", str(tmp_path)))
    assert found["evaluations"] == 4


SUITES = """
import autoprox_example as example
from autoprox.inputs.images import load_batch
from autoprox.testing import *

check_operation(example.softplus)
check_statistic(example.SALIENCY)
check_benchmark(example.BENCHMARK)
check_space(example.MINI)
check_proxy(example.SMOOTHNESS)
network = example.MINI.build(example.MINI.largest(), classes=4, seed=1)
check_function_proxy(
    example.first_loss, network, load_batch("noise", example.MINI.input_shape, 2, 0, classes=4)
)
check_evolution_strategy(example.NEWCOMERS)
check_search_strategy(example.SINGLE)
check_exporter(example.words)
"""


def test_its_author_can_run_the_suites(plugins: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(plugins)}
    subprocess.run([sys.executable, "-W", "error", "-c", SUITES], env=environment, check=True)


def test_a_package_that_cannot_be_loaded_is_a_warning_that_names_it(tmp_path: Path) -> None:
    source = shutil.copytree(PACKAGE, tmp_path / "source")
    (source / "autoprox_example" / "__init__.py").write_text("import nothing_there\n")
    broken = installed(source, tmp_path / "installed")
    done = run(broken, "show", "smoothness", "--form", "words")
    assert done.returncode == 2
    reason = "of autoprox-example is left out: ModuleNotFoundError: No module named 'nothing_there'"
    for item in ("autoprox.proxies 'smoothness'", "autoprox.operations 'softplus'"):
        assert f"PluginWarning: {item} {reason}" in done.stderr
    done = run(broken, "show", "snip", "--form", "text")
    assert (done.returncode, done.stdout) == (0, "sum(sum(abs(mul(all.weight, all.grad))))\n")
