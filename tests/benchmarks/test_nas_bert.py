"""NAS-Bench-BERT: what the published file says, and what is said of a wrong one."""

import hashlib
import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import f, kendalltau, rankdata

from autoprox.benchmarks import load_benchmark
from autoprox.benchmarks.benchmark import BenchmarkRow, BenchmarkSelection
from autoprox.benchmarks.benchmark_registry import PinnedBenchmarkFile
from autoprox.benchmarks.nas_bench_bert import DATASETS, NAS_BENCH_BERT, TASKS
from autoprox.errors import AutoproxError
from autoprox.searchspaces.flexibert import FLEXIBERT

DATA = os.environ.get("AUTOPROX_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, "nas-bench-bert").is_dir(),
    reason="needs the file of nas-bench-bert: set AUTOPROX_DATA to a folder that has it",
)
[FILE] = NAS_BENCH_BERT.files

LAYER = {
    "operation_type": "LT",
    "operation_parameter": "DCT",
    "num_operation_heads": 2,
    "feed_forward_dimension": 512,
    "num_feed_forward": 3,
}
CONVOLUTION = LAYER | {"operation_type": "DSC", "operation_parameter": 9, "num_feed_forward": 1}


def entry(hidden_size: Any = 128, **scores: Any) -> dict[str, Any]:
    layers = {"encoder_layers": [LAYER, CONVOLUTION]}
    overrides = {"hidden_size": hidden_size, "nas_config": layers}
    every = {"glue": 60.0} | dict.fromkeys(TASKS, 50.0) | scores
    return {"id": 0, "scores": every, "hparams": {"model_hparam_overrides": overrides}}


def read(content: str, *datasets: str) -> list[BenchmarkRow]:
    selection = BenchmarkSelection("flexibert", "score", datasets or DATASETS)
    return NAS_BENCH_BERT.read(selection, [(FILE, content.encode())])


def published() -> str:
    return Path(str(DATA), "nas-bench-bert", FILE.name).read_text()


def chosen(found: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    overrides = found["hparams"]["model_hparam_overrides"]
    return overrides["hidden_size"], overrides["nas_config"]["encoder_layers"]


# ---- the published file


@needs_data
def test_the_file_is_the_pinned_one() -> None:
    content = published().encode()
    assert isinstance(FILE, PinnedBenchmarkFile)
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (FILE.sha256, FILE.size)
    assert FILE.architectures == len(read(published(), "glue"))


@needs_data
def test_its_first_entry() -> None:
    row = read(published())[0]
    assert dict(row.architecture.choices) == {
        "depth": 4,
        "feed_forward_dimension": (1024, 512, 512, 1024),
        "hidden_size": 256,
        "num_feed_forward": (3, 3, 3, 1),
        "num_operation_heads": (4, 2, 4, 4),
        "operation": ("wma", "dct", "sdp", "sdp"),
    }
    scores = (74.73375, 42.69, 72.57, 81.62, 82.96, 86.9, 62.82, 83.72, 84.59)
    assert tuple(row.scores.values()) == scores
    assert tuple(row.scores) == DATASETS


@needs_data
def test_an_architecture_that_was_trained_twice_has_the_mean() -> None:
    entries = json.loads(published())
    first, second = entries[60], entries[222]
    assert chosen(first) == chosen(second)
    rows = read(published())
    assert len(entries) == 500
    assert len({row.architecture for row in rows}) == len(rows) == 491
    assert rows[60].scores["glue"] == (first["scores"]["glue"] + second["scores"]["glue"]) / 2
    for row in rows:
        assert row.scores["glue"] == pytest.approx(fmean(row.scores[task] for task in TASKS))
        FLEXIBERT.validate(row.architecture)


@needs_data
def test_parameter_count_against_the_scores() -> None:
    rows = read(published())
    params = [FLEXIBERT.params(row.architecture) for row in rows]
    wanted = {"glue": 0.486, "mnli": 0.529, "qqp": 0.564, "rte": 0.023}
    for dataset, tau in wanted.items():
        scores = [row.scores[dataset] for row in rows]
        assert kendalltau(params, scores).statistic == pytest.approx(tau, abs=0.0005)


@needs_data
def test_the_published_parameter_counts() -> None:
    """They are of encoders with 256 dimensions, 1024 in feed-forward layers, whatever is chosen.

    The encoder is the network without its prediction head, and in the published network ``dft`` and
    ``dct`` have neither output projection nor normalisation.
    """
    width, embedded, vocabulary = 256, 128, 30522
    head = (width + 1) * embedded + 2 * embedded + vocabulary
    counts = []
    for row in (_row(found) for found in json.loads(published())):
        choices = dict(row.architecture.choices)
        depth, operations = choices["depth"], choices["operation"]
        alike = {"hidden_size": width, "feed_forward_dimension": (1024,) * depth}
        params = FLEXIBERT.params(FLEXIBERT.architecture(choices | alike))
        transforms = operations.count("dft") + operations.count("dct")
        counts.append(params - head - transforms * ((width + 1) * width + 2 * width))
    assert counts[:8] == [
        *(13330176, 11106199, 8840082, 5526167, 11104143, 5356549, 7654282, 13066752),
    ]
    scores = [found["scores"]["glue"] for found in json.loads(published())]
    assert kendalltau(counts, scores).statistic == pytest.approx(0.454, abs=0.0005)


def _row(found: dict[str, Any]) -> BenchmarkRow:
    [row] = read(json.dumps([found]), "glue")
    return row


@needs_data
@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ("score", {"operations": 0.56, "single": 0.63, "triple": 0.011}),
        ("time", {"operations": 0.64, "single": 0.37, "triple": 7e-56}),
    ],
)
def test_what_explains_the_scores(measured: str, expected: dict[str, float]) -> None:
    """The F-tests of the module's docstring: nested least squares on ranks."""
    entries = json.loads(published())
    truth = [e["time_to_train"] if measured == "time" else e["scores"]["glue"] for e in entries]
    rows = [explanations(found) for found in entries]
    for tested, p in expected.items():
        others = [[x for n, own in row.items() if n != tested for x in own] for row in rows]
        every = [[x for own in row.values() for x in own] for row in rows]
        (less, few), (full, many) = (unexplained(x, rankdata(truth)) for x in (others, every))
        freedom = len(truth) - many
        statistic = (less - full) / (many - few) / (full / freedom)
        assert f.sf(statistic, many - few, freedom) == pytest.approx(p, rel=0.1)


def explanations(found: dict[str, Any]) -> dict[str, list[float]]:
    """Of an entry: its hidden size and depth as one class of four, and counts of its layers."""
    hidden_size, layers = chosen(found)
    parameters = [layer["operation_parameter"] for layer in layers]
    wide = [(x["feed_forward_dimension"] == 1024, x["num_feed_forward"]) for x in layers]
    return {
        "class": [(hidden_size, len(layers)) == (a, b) for a in (128, 256) for b in (2, 4)],
        "operations": [parameters.count(known) for known in ("WMA", "DFT", "DCT", 5, 9)],
        "heads": [sum(layer["num_operation_heads"] for layer in layers)],
        "stacks": [sum(layer["num_feed_forward"] for layer in layers)],
        "single": [wide.count((True, 1))],
        "triple": [wide.count((True, 3))],
    }


def unexplained(x: list[list[float]], truth: NDArray[np.float64]) -> tuple[float, int]:
    """The squared error of the regression on these columns, and their number."""
    matrix = np.array(x, dtype=np.float64)
    residual = truth - matrix @ np.linalg.lstsq(matrix, truth, rcond=None)[0]
    return float(residual @ residual), matrix.shape[1]


# ---- a wrong one


def test_a_small_file_is_read() -> None:
    other = entry(256, glue=61, cola=-2.5)
    rows = read(json.dumps([entry(glue=60), other, entry(glue=63.0)]), "glue", "cola")
    assert [row.scores for row in rows] == [
        {"glue": 61.5, "cola": 50.0},
        {"glue": 61, "cola": -2.5},
    ]
    assert rows[0].architecture["operation"] == ("dct", "dsc9")
    assert rows[1].where == f"{FILE.name}:1: [1].hparams.model_hparam_overrides"


def replaced(old: str, new: str) -> str:
    content = json.dumps([entry()], indent=1)
    assert old in content
    return content.replace(old, new, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "BERT_benchmark.json:1: the file must be an array, but got an object"),
        ("[[]]", r"json:1: \[0\] must be an object, but got an array"),
        (replaced('"scores"', '"score"'), r"json:2: \[0\] must have the key scores, but got only"),
        (replaced('"glue": 60.0', '"glue": "60"'), r"json:5: \[0\].scores.glue must be a finite"),
        (replaced('"glue": 60.0', '"glue": NaN'), r"glue must be a finite number, but got NaN"),
        (replaced('"cola": 50.0', '"cola": 101'), r"json:6: \[0\].scores.cola must be at most 100"),
        (replaced('"rte"', '"rt"'), r"\[0\].scores must have the key rte, but got only glue, cola"),
        (
            replaced('"hidden_size": 128', '"hidden_size": 192'),
            r"json:16: \[0\].hparams.model_hparam_overrides: hidden_size must be one of 128, 256",
        ),
        (
            replaced('"num_operation_heads": 2', '"num_operation_heads": "2"'),
            r"json:16: .*: num_operation_heads\[0\] must be one of 2, 4, but got '2'",
        ),
        (
            replaced('"DCT"', '"SDP"'),
            r"json:21: .*encoder_layers\[0\].operation_type and operation_parameter must be one of "
            r'SA SDP, .*, DSC 9, but got "LT" "SDP"',
        ),
        (replaced('"DCT"', "{}"), 'must be one of SA SDP, .* but got "LT" an object'),
        (replaced("9", "7"), 'must be one of .*DSC 5, DSC 9, but got "DSC" 7'),
        (
            replaced('"num_feed_forward": 3', '"n": 3'),
            r"layers\[0\] must have the key num_feed_for",
        ),
        ("[", "json:1: the file must .*, but got the end of the file"),
    ],
)
def test_wrong_content_is_located(content: str, message: str) -> None:
    with pytest.raises(AutoproxError, match=message) as caught:
        read(content)
    assert "\n" not in str(caught.value)


@needs_data
def test_glue_is_what_is_meant_without_datasets() -> None:
    assert load_benchmark("nas-bench-bert").datasets == ("glue",)
    assert load_benchmark("nas-bench-bert", datasets=["cola", "glue"]).datasets == ("cola", "glue")
