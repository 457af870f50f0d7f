"""A table of one's own: what it becomes, and each rule that it can break."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from autoprox.benchmarks import BenchmarkError, load_benchmark
from autoprox.errors import AutoproxError
from autoprox.files.json_documents import JSONFileError
from autoprox.searchspaces import Architecture, get_space


def architectures(count: int) -> list[Architecture]:
    rng = random.Random(0)
    return [get_space("autoformer-ti").sample(rng) for _ in range(count)]


def table(count: int = 12) -> dict[str, Any]:
    rows = [
        {"arch": a.to_json()["choices"], "scores": {"cifar100": 70 + i, "loss": 2.0 - i}}
        for i, a in enumerate(architectures(count))
    ]
    return {
        "format": 1,
        "name": "mine",
        "space": "autoformer",
        "datasets": {
            "cifar100": {"classes": 100},
            "loss": {"classes": 4, "higher_is_better": False},
        },
        "architectures": rows,
    }


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_table(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(table()))
    benchmark = load_benchmark(path)
    assert (benchmark.name, benchmark.space, benchmark.label) == ("mine", "autoformer-ti", "score")
    assert benchmark.architectures == tuple(architectures(12))
    assert benchmark.classes == {"cifar100": 100, "loss": 4}
    assert benchmark.scores["cifar100"].tolist() == list(range(70, 82))
    assert benchmark.scores["loss"].tolist() == [i - 2.0 for i in range(12)]
    assert (
        f"table.json (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()})" in benchmark.source
    )
    assert load_benchmark(str(path), datasets=["loss"], space="autoformer").datasets == ("loss",)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"datasets": ["cifar"]}, r"no dataset 'cifar' \(did you mean cifar100\?\); choose from"),
        ({"space": "pit"}, r"table\.json:1: space must be the space .*pit, but got .autoformer"),
        ({"label": "kd"}, r"neither labels nor subsets"),
        ({"subset": "all"}, r"neither labels nor subsets"),
    ],
)
def test_wrong_selection_of_a_table(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(AutoproxError, match=message):
        load_benchmark(written(tmp_path, json.dumps(table())), **asked)


def test_what_a_build_adds_changes_nothing(tmp_path: Path) -> None:
    document = table()
    plain = load_benchmark(written(tmp_path, json.dumps(document)))
    document["training"] = {"seeds": 2, "noise_ceiling": {"cifar100": None}}
    for entry in document["architectures"]:
        entry["runs"] = {"cifar100": [entry["scores"]["cifar100"]] * 2}
    built = load_benchmark(written(tmp_path, json.dumps(document)))
    assert built.architectures == plain.architectures
    assert {d: s.tolist() for d, s in built.scores.items()} == {
        d: s.tolist() for d, s in plain.scores.items()
    }


def at(document: Any, path: str) -> tuple[Any, Any]:
    """The container that a path like `architectures/3/arch` ends in, and the last key."""
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in keys:
        document = document[key]
    return document, last


NAN, INF = float("nan"), float("inf")
DELETE = object()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("architectures/3/scores/cifar100", NAN, "a finite number, but got NaN"),
        ("architectures/3/scores/cifar100", -INF, "a finite number, but got -Infinity"),
        ("architectures/3/scores/cifar100", None, "a finite number, but got null"),
        ("architectures/3/scores/cifar100", True, "a finite number, but got true"),
        ("architectures/3/scores/cifar100", "71", 'a finite number, but got "71"'),
        ("architectures/3/scores/cifar100", 10**30, None),
        (
            "architectures/3/scores/cifar100",
            10**120,
            r"at most 1e\+100 in size, but got 1000+\.\.\.",
        ),
        ("architectures/3/scores/cifar100", 10**400, r"a finite number, but got 1000+\.\.\."),
        ("architectures/3/arch", [1], "must be an object, but got an array"),
        ("architectures/3/arch/hidden_dim", 200, r"arch: hidden_dim must be one of 192, 216, 240"),
        (
            "architectures/3/arch/depth",
            13.5,
            r"arch: depth must be one of 12, 13, 14, but got 13\.5",
        ),
        ("architectures/3/arch/num_heads", [3], r"arch: num_heads must be a list of"),
        ("architectures/3/arch/width", 1, r"arch: unknown choice 'width'"),
        ("architectures/3/arch", {}, r"arch: hidden_dim is missing"),
        ("architectures", {}, "architectures must be an array, but got an object"),
        ("datasets/cifar100/classes", 1, "classes must be an integer from 2 to 1000000, but got 1"),
        ("datasets/cifar100/classes", 10.5, "classes must be an integer from 2 .* got 10.5"),
        ("datasets/cifar100/classes", True, "classes must be an integer from 2 .* got true"),
        ("datasets/loss/higher_is_better", 0, "higher_is_better must be true or false, but got 0"),
        ("datasets", {}, "datasets must have at least one dataset, but got none"),
        ("name", "a/b", "name must be 1 to 64 letters.*but got 'a/b'"),
        ("name", 3, "name must be a string, but got 3"),
        ("space", "autofromer-ti", r"space: unknown search space.*did you mean autoformer-ti"),
        ("space", None, "space must be a string, but got null"),
        ("format", 2, "format must be 1, but got 2"),
    ],
)
def test_wrong_value_in_a_table(tmp_path: Path, path: str, value: Any, message: str | None) -> None:
    document = table()
    container, key = at(document, path)
    container[key] = value
    file = written(tmp_path, json.dumps(document, indent=1))
    if message is None:
        assert load_benchmark(file).scores["cifar100"][3] == value
        return
    with pytest.raises(AutoproxError, match=rf"table\.json:\d+: .*{message}") as caught:
        load_benchmark(file)
    line = int(str(caught.value).split(":")[1])
    # the line quoted is that of the value, or of the object that it makes wrong
    quoted = file.read_text().splitlines()[line - 1].strip()
    assert any(quoted.startswith(f'"{name}":') for name in path.split("/"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "architectures/3/scores/loss",
            r"architectures\[3\]\.scores must have the key loss, but",
        ),
        (
            "architectures/3/scores",
            r"architectures\[3\] must have the key scores, but",
        ),
        ("architectures/3/arch/depth", r"architectures\[3\]\.arch: depth is missing"),
        ("datasets/loss/classes", r"datasets\.loss must have the key classes, but"),
        ("space", r":1: the file must have the key space, but got only format, name"),
        ("datasets/loss", r"unknown key architectures\[0\]\.scores\.loss; choose from cifar100"),
    ],
)
def test_missing_key_in_a_table(tmp_path: Path, path: str, message: str) -> None:
    document = table()
    container, key = at(document, path)
    del container[key]
    with pytest.raises(AutoproxError, match=message):
        load_benchmark(written(tmp_path, json.dumps(document, indent=1)))


def test_unknown_key_in_a_table(tmp_path: Path) -> None:
    document = table()
    document["architectures"][2]["score"] = {}
    rule = r":\d+: unknown key architectures\[2\]\.score \(did you mean scores\?\); choose"
    with pytest.raises(JSONFileError, match=rule):
        load_benchmark(written(tmp_path, json.dumps(document, indent=1)))


def test_same_architecture_twice(tmp_path: Path) -> None:
    document = table()
    rows = document["architectures"]
    rows[7]["arch"] = dict(reversed(rows[2]["arch"].items()))
    text = json.dumps(document).replace('{"arch"', '\n{"arch"')
    rule = (
        r"table\.json:9: .*\[7\]\.arch must differ .*, but equals .*table\.json:4: .*\[2\]\.arch$"
    )
    with pytest.raises(BenchmarkError, match=rule):
        load_benchmark(written(tmp_path, text))


def test_too_few_architectures(tmp_path: Path) -> None:
    assert len(load_benchmark(written(tmp_path, json.dumps(table(10)))).architectures) == 10
    with pytest.raises(
        BenchmarkError, match=r"table\.json:1: architectures must be at least 10 .* are 9$"
    ):
        load_benchmark(written(tmp_path, json.dumps(table(9))))


def test_constant_scores(tmp_path: Path) -> None:
    document = table()
    for row in document["architectures"]:
        row["scores"]["loss"] = 0.1
    with pytest.raises(
        BenchmarkError, match=r"table\.json:1: datasets\.loss must have at least two"
    ):
        load_benchmark(written(tmp_path, json.dumps(document)))


def test_table_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(JSONFileError, match=r"must be a JSON file, but is a directory"):
        load_benchmark(tmp_path)
    with pytest.raises(JSONFileError, match=r"table\.json:1: the file must be complete JSON"):
        load_benchmark(written(tmp_path, json.dumps(table())[:-9]))
    with pytest.raises(
        JSONFileError, match=r"table\.json:1: the file must be an object, but got an"
    ):
        load_benchmark(written(tmp_path, "[1, 2]"))


def test_a_sample_is_always_the_same_and_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(table(40)))
    whole = load_benchmark(path)
    small, large = (load_benchmark(path, networks=n) for n in (12, 30))
    assert load_benchmark(path, networks=12).digest == small.digest != large.digest
    assert load_benchmark(path, networks=40).digest == whole.digest
    order = [whole.architectures.index(a) for a in large.architectures]
    assert order == sorted(order) != [*range(30)]
    assert set(small.architectures) < set(large.architectures)
    assert large.scores["cifar100"].tolist() == [70.0 + n for n in order]
    assert "30 of them drawn at random" in large.source
    for networks in (9, 41, -1):
        with pytest.raises(BenchmarkError, match=r"networks must be from 10 to 40, .* got -?\d"):
            load_benchmark(path, networks=networks)
