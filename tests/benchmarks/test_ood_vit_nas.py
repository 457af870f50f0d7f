"""OoD-ViT-NAS: what the published files say, its subsets, and what is said of a wrong file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import Pin
from scipy.stats import kendalltau

from autoprox.benchmarks import BENCHMARKS, BenchmarkError, benchmark_info, load_benchmark
from autoprox.searchspaces import get_space

NAME, SMALL = "ood-vit-nas", "autoformer-supernet-s"
FILE = "1k_Vit_Architecture_from_AutoFM_small.json"
EXCERPT = Path(__file__).parents[1] / "data" / "benchmarks" / "ood_vit_nas_small.json"
DATA = os.environ.get("AUTOPROX_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, NAME).is_dir(),
    reason="needs the files of ood-vit-nas: set AUTOPROX_DATA to a folder that has them",
)


# ---- the published files


@needs_data
@pytest.mark.parametrize(("size", "space"), [("tiny", "ti"), ("small", "s")])
def test_parameter_counts_are_the_published_ones(size: str, space: str) -> None:
    benchmark = load_benchmark(NAME, space=f"autoformer-supernet-{space}")
    file = Path(str(DATA), NAME, FILE.replace("small", size))
    published = [entry["params"] for entry in json.loads(file.read_text()).values()]
    params = get_space(benchmark.space).params
    assert [params(a) / 1e6 for a in benchmark.architectures] == published
    assert len(published) == 1001


@needs_data
def test_depth_ranks_tiny_and_parameters_small_ones() -> None:
    """Published with 300 of the networks each: .641 for depth, .790 for parameters."""
    tiny, small = (load_benchmark(NAME, space=f"autoformer-supernet-{s}") for s in ("ti", "s"))
    depth = [a["depth"] for a in tiny.architectures]
    params = [get_space(SMALL).params(a) for a in small.architectures]
    assert kendalltau(depth, tiny.scores["imagenet"]).statistic == pytest.approx(0.64, abs=0.03)
    assert kendalltau(params, small.scores["imagenet"]).statistic == pytest.approx(0.79, abs=0.03)


@needs_data
@pytest.mark.parametrize(
    ("subset", "space", "networks"),
    [("5M-7M", "ti", 1001), ("15M-19M", "s", 298), ("23M-25M", "s", 106)],
)
def test_a_subset_is_the_published_networks_of_a_size(
    subset: str, space: str, networks: int
) -> None:
    benchmark = load_benchmark(NAME, subset=subset)
    assert benchmark.space == f"autoformer-supernet-{space}"
    low, high = (float(end.removesuffix("M")) * 1e6 for end in subset.split("-"))
    sizes = [get_space(benchmark.space).params(a) for a in benchmark.architectures]
    assert low <= min(sizes) <= max(sizes) <= high
    assert len(sizes) == networks


# ---- an excerpt that we made up


@pytest.fixture
def excerpt(pin: Pin) -> Callable[..., dict[str, Any]]:
    """Install the excerpt, changed, as the file of the small supernet; the others are absent."""

    def install(change: Callable[[dict[str, Any]], object] = len) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(EXCERPT.read_text())
        change(document)
        pin(NAME, {FILE: json.dumps(document).encode()})
        return document

    return install


def test_the_networks_of_a_file(excerpt: Callable[..., dict[str, Any]]) -> None:
    document = excerpt()
    benchmark = load_benchmark(NAME, space=SMALL)
    assert (benchmark.label, benchmark.classes) == ("supernet", {"imagenet": 1000})
    for found, score, entry in zip(
        benchmark.architectures, benchmark.scores["imagenet"], document.values(), strict=True
    ):
        setting = entry["net_setting"]
        layers = setting["layer_num"]
        assert found["depth"] == layers
        assert found["hidden_dim"] == setting["embed_dim"][0]
        assert found["mlp_ratio"] == tuple(setting["mlp_ratio"][:layers])
        assert found["num_heads"] == tuple(setting["num_heads"][:layers])
        assert score == entry["performance"]["Imagenet"]["clean"]


def test_a_subset_by_size(excerpt: Callable[..., dict[str, Any]]) -> None:
    published = [entry["params"] for entry in excerpt().values()]
    with pytest.raises(BenchmarkError, match=r"at least 10 to correlate over, but are 6$"):
        load_benchmark(NAME, subset="15M-19M")
    assert sum(15 <= size <= 19 for size in published) == 6


def test_a_subset_finds_its_space(nowhere: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"needs \w+_tiny\.json"):
        load_benchmark(NAME, subset="5M-7M")
    with pytest.raises(BenchmarkError, match=f"{SMALL} has no subset '5M-7M'.*15M-19M, 23M-25M"):
        load_benchmark(NAME, space=SMALL, subset="5M-7M")


def test_a_missing_file_hides_no_other(excerpt: Callable[..., dict[str, Any]]) -> None:
    excerpt()
    assert len(load_benchmark(NAME, space=SMALL).architectures) == 24
    with pytest.raises(BenchmarkError, match=r"needs 1k_\w+_base\.json, .* downloads it") as caught:
        load_benchmark(NAME, space="autoformer-supernet-b")
    assert "\n" not in str(caught.value)
    states = {file.file: file.status for file in benchmark_info(NAME).files}
    assert [state for file, state in states.items() if file == FILE] == ["installed"]
    assert set(states.values()) == {"installed", "absent"}


def change(*path: str, value: object) -> Callable[[dict[str, Any]], object]:
    def changed(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return changed


CLEAN = ("performance", "Imagenet", "clean")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (change("4", *CLEAN, value=float("nan")), "4.performance.Imagenet.clean must be a finite"),
        (change("4", *CLEAN, value=None), "clean must be a finite number, but got null"),
        (change("4", "performance", value={}), "performance must have the key Imagenet"),
        (change("3", "net_setting", "layer_num", value=99), "depth must be one of 12, 13, 14"),
        (change("4", "net_setting", "layer_num", value=-3), "depth must be one of 12, 13, 14"),
        (change("4", "net_setting", "embed_dim", value=[200] * 14), "hidden_dim must be one of"),
        (change("4", "net_setting", "embed_dim", value=[]), "hidden_dim must be one of"),
        (
            change("4", "net_setting", "embed_dim", value=[320, 384] * 7),
            "embed_dim must have the same value for all",
        ),
        (change("4", "net_setting", "mlp_ratio", value=[4]), "mlp_ratio must be a list of"),
        (change("4", "net_setting", "num_heads", value=[4] * 14), "num_heads[0] must be one of"),
        (change("4", value=json.loads(EXCERPT.read_text())["5"]), "must differ from every other"),
        (change("4", value=[]), "must be an object"),
    ],
)
def test_a_wrong_network_is_one_line_and_nothing_is_written(
    changed: Callable[[dict[str, Any]], object],
    message: str,
    excerpt: Callable[..., dict[str, Any]],
    run: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    excerpt(changed)
    result = run("rank", "--benchmark", NAME, "--space", SMALL, "--proxies", "params")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err
    assert FILE in result.err
    assert not (tmp_path / "runs").exists()


def test_another_file_is_one_line_and_nothing_is_written(
    excerpt: Callable[..., dict[str, Any]],
    nowhere: Path,
    run: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    excerpt()
    nowhere.with_name(NAME).joinpath(FILE).write_bytes(EXCERPT.read_bytes()[:-100])
    result = run("rank", "--benchmark", NAME, "--space", SMALL, "--proxies", "params")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "must have sha256" in result.err
    assert not (tmp_path / "runs").exists()


def test_every_space_has_1001_networks() -> None:
    source = BENCHMARKS[NAME]
    assert {file.space: file.architectures for file in source.files} == dict.fromkeys(
        source.labels, 1001
    )
