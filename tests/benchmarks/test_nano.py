"""nano-bench: the benchmark that comes along, its tables and what their labels are worth."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autoprox.benchmarks import benchmark_info, fetch_benchmark, list_benchmarks, load_benchmark
from autoprox.benchmarks.info_documents import BenchmarkFile
from autoprox.searchspaces import get_space

NANO = "nano-bench"
TABLES = Path(__file__).parents[2] / "runs" / "scripts" / "nano_bench_tables.py"
IMAGES, TEXTS = ("cifar10", "fashion-mnist"), ("python-sources", "english-docs")
INFO = benchmark_info(NANO)
FILES = INFO.files


def test_it_needs_nothing(nowhere: Path, tmp_path: Path) -> None:
    assert not nowhere.parent.exists()
    benchmark = load_benchmark(NANO, data_dir=tmp_path)
    info = list_benchmarks(tmp_path)[0]
    assert json.loads(json.dumps(info.model_dump())) == info.model_dump()
    assert (info.name, info.embedded, info.installed) == (NANO, True, True)
    assert info.datasets == {**dict.fromkeys(IMAGES, 10), **dict.fromkeys(TEXTS, 256)}
    assert info.spaces == ["autoformer-nano", "pit-nano", "gpt2-nano"]
    assert benchmark.space == "autoformer-nano"
    assert info.files[0].architectures == len(set(benchmark.architectures))
    assert {file.architectures for file in info.files} == {128}
    assert [file.status for file in info.files] == ["installed"] * 3
    assert fetch_benchmark(NANO) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.space)
def test_its_files_are_tables_of_one_s_own(file: BenchmarkFile) -> None:
    table = json.loads(Path(file.path).read_text())
    classes = {dataset: entry["classes"] for dataset, entry in table["datasets"].items()}
    assert {dataset: INFO.datasets[dataset] for dataset in classes} == classes
    assert file.architectures == len(table["architectures"])
    own, built_in = load_benchmark(file.path), load_benchmark(NANO, space=file.space)
    assert own.architectures == built_in.architectures
    for dataset, scores in built_in.scores.items():
        assert own.scores[dataset] == pytest.approx(scores, abs=1e-6)


def test_its_files_follow_from_the_trainings(tmp_path: Path) -> None:
    subprocess.run([sys.executable, TABLES, "--out", tmp_path], check=True, capture_output=True)
    for file in FILES:
        path = Path(file.path)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.space)
def test_it_says_what_its_labels_are_worth(file: BenchmarkFile) -> None:
    """Pair by pair: how often two networks of equal size are in the same order in both seeds."""
    table, space = json.loads(Path(file.path).read_text()), get_space(file.space)
    for label, sign in (("cross-entropy", -1), ("accuracy", 1)):
        benchmark = load_benchmark(NANO, space=space.name, label=label)
        sizes = [space.params(arch, 10) for arch in benchmark.architectures]
        for dataset, scores in benchmark.scores.items():
            runs = np.array([entry["runs"][dataset][label] for entry in table["architectures"]])
            assert scores == pytest.approx(sign * runs.mean(1))
            signs = [
                np.sign((runs[one] - runs[other]).prod())
                for one, other in itertools.combinations(range(len(runs)), 2)
                if max(sizes[one], sizes[other]) < 1.1 * min(sizes[one], sizes[other])
            ]
            r = np.sin(np.mean(signs) * np.pi / 2)
            found = table["training"]["reliability"][label][dataset]
            assert found == pytest.approx(np.arcsin(2 * r / (1 + r)) / np.pi * 2, abs=0.01)
            if label == "cross-entropy":
                assert found >= 0.6
                assert INFO.reliability[space.name][dataset] == found
