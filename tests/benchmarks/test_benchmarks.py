"""Benchmarks: the published files, their download, the user's table, the rules for all of them."""

import hashlib
import io
import os
import random
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.tables import Pin
from scipy.stats import kendalltau

from autoprox.benchmarks import (
    BENCHMARKS,
    BenchmarkError,
    benchmark_info,
    benchmark_registry,
    fetch_benchmark,
    list_benchmarks,
    load_benchmark,
)
from autoprox.errors import AutoproxError
from autoprox.registry import Registry
from autoprox.searchspaces import get_space
from autoprox.searchspaces.flexibert import FLEXIBERT
from autoprox.searchspaces.gpt2 import GPT2_HW

VIT, NANO = "vit-bench-101", "nano-bench"
DATA = os.environ.get("AUTOPROX_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, VIT).is_dir(),
    reason="needs the files of vit-bench-101: set AUTOPROX_DATA to a folder that has them",
)


# ---- the published files


@needs_data
@pytest.mark.parametrize(
    ("space", "taus"), [("autoformer", (54, 70, 31)), ("pit", (81, 86, 56))], ids=["af", "pit"]
)
def test_parameter_count_has_its_published_taus(space: str, taus: tuple[int, ...]) -> None:
    benchmark = load_benchmark(VIT, space=space)
    assert benchmark.datasets == ("cifar100", "flowers", "chaoyang")
    assert benchmark.label == "kd"
    params = [get_space(benchmark.space).params(a) for a in benchmark.architectures]
    found = [100 * kendalltau(params, benchmark.scores[d]).statistic for d in benchmark.datasets]
    assert np.round(found) == pytest.approx(taus, abs=1)


@needs_data
def test_labels_are_not_mixed_up() -> None:
    kd = load_benchmark(VIT)
    base = load_benchmark(VIT, label="base", datasets=["cifar100"])
    supernet = load_benchmark(VIT, label="supernet")
    assert kendalltau(kd.scores["cifar100"], base.scores["cifar100"]).statistic == pytest.approx(
        -0.27, abs=0.01
    )
    assert len(set(kd.scores["chaoyang"])) == 34
    assert supernet.classes == {"imagenet": 1000}
    assert (supernet.scores["imagenet"].min(), supernet.scores["imagenet"].max()) == pytest.approx(
        (70.748, 75.51)
    )
    assert kd.architectures == base.architectures == supernet.architectures
    assert len(set(kd.architectures)) == 100
    assert "100 architectures of gt_autoformer.pth (sha256 712ad277" in kd.source


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"space": "autofromer-ti"}, r"unknown search space .*did you mean autoformer-ti"),
        ({"space": "autoformer-b"}, r"no space 'autoformer-b'.*choose from autoformer-ti, pit"),
        ({"label": "kb"}, r"no label 'kb'; choose from kd, base, supernet"),
        (
            {"space": "pit", "label": "supernet"},
            r"pit has no label 'supernet'; choose from kd",
        ),
        ({"datasets": ["cifar10"]}, r"no dataset 'cifar10' \(did you mean cifar100\?\)"),
        ({"datasets": ["imagenet"]}, r"no kd scores for imagenet: their label is supernet"),
        (
            {"space": "pit", "datasets": ["imagenet"]},
            r"no dataset 'imagenet'; choose from c",
        ),
        ({"datasets": []}, r"at least one, but got none"),
        ({"datasets": ["flowers", "flowers"]}, r"named once.*but got flowers, flowers"),
        ({"space": "pit", "subset": "extra"}, r"pit has no subset 'extra'; choose from main"),
        ({"subset": "rest"}, r"no subset 'rest'; choose from main, extra, all"),
    ],
)
def test_wrong_selection(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(AutoproxError, match=message) as caught:
        load_benchmark(VIT, **asked)
    assert "\n" not in str(caught.value)


def test_a_data_folder_that_is_named_is_there(tmp_path: Path) -> None:
    missing = tmp_path / "elsewhere"
    with pytest.raises(BenchmarkError, match=f"data_dir must be a folder, but {missing} is none"):
        load_benchmark(VIT, data_dir=missing)


def test_absent_file_says_where_and_how(nowhere: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BenchmarkError, match=r"needs gt_pit\.pth, .*autoprox bench fetch"
    ) as caught:
        load_benchmark(VIT, space="pit", data_dir=tmp_path)
    assert f"not in {tmp_path}/{VIT}, {nowhere}:" in str(caught.value)
    assert str(caught.value).endswith(
        f"{NANO} or a table of your own (--benchmark NAME|FILE) needs no download"
    )


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short"])
def test_changed_file_is_not_read(nowhere: Path, content: bytes) -> None:
    nowhere.mkdir(parents=True)
    (nowhere / "gt_pit.pth").write_bytes(content)
    found = hashlib.sha256(content).hexdigest()
    rule = rf"gt_pit\.pth must have sha256 bdda8984\w+, but has {found} \({len(content)} bytes of 1"
    with pytest.raises(BenchmarkError, match=rule):
        load_benchmark(VIT, space="pit")
    assert benchmark_info(VIT).files[2].status == "changed"


def test_unknown_benchmark() -> None:
    with pytest.raises(BenchmarkError, match=r"unknown benchmark 'vit-bench' \(did you mean vit-b"):
        load_benchmark("vit-bench")
    with pytest.raises(
        BenchmarkError, match=r"unknown benchmark 'x'; choose from nano-bench, vit-"
    ):
        fetch_benchmark("x")


# ---- which one is the default


def test_a_file_that_can_not_be_read_hides_no_benchmark(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPROX_DATA", str(tmp_path))
    fifo = tmp_path / "vit-bench-101" / benchmark_info("vit-bench-101").files[0].file
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    [found] = [info for info in list_benchmarks() if info.name == "vit-bench-101"]
    assert [file.status for file in found.files].count("unreadable") == 1
    assert not found.installed
    assert "unreadable:" in (listed := run("bench", "list")).out
    assert "nas-bench-bert" in listed.out
    assert "must be a readable file" in run("bench", "fetch", "vit-bench-101").err


def test_a_space_is_found_by_its_datasets() -> None:
    assert load_benchmark(datasets=["english-docs"]).space == "gpt2-nano"
    assert load_benchmark(NANO, datasets=["english-docs"]).space == "gpt2-nano"


@pytest.mark.parametrize(
    ("asked", "name", "space"),
    [
        ({}, NANO, "autoformer-nano"),
        ({"datasets": ["fashion-mnist", "cifar10"]}, NANO, "autoformer-nano"),
        ({"datasets": ["cifar100", "flowers", "chaoyang"]}, VIT, "autoformer-ti"),
        ({"space": "pit"}, VIT, "pit"),
        ({"space": "autoformer"}, VIT, "autoformer-ti"),
        ({"label": "base"}, VIT, "autoformer-ti"),
    ],
)
@needs_data
def test_default_benchmark_has_what_is_asked_for(
    asked: dict[str, Any], name: str, space: str
) -> None:
    benchmark = load_benchmark(**asked)
    assert (benchmark.name, benchmark.space) == (name, space)
    assert benchmark.datasets == tuple(asked.get("datasets", benchmark.datasets))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"datasets": ["cifar10", "flower"]},
            r"nano.* has no dataset 'flower'; choose from cifar10, .*, and vit-bench-101 "
            r"\(autoformer-ti, kd\) has no dataset 'cifar10'",
        ),
        ({"space": "pit", "datasets": ["cifar10"]}, r"no space 'pit'.*no dataset 'cifar10'"),
        (
            {"space": "autoformer-b"},
            r"no space .*choose from autoformer-nano, .*, and vit.* choose",
        ),
        ({"label": "kb"}, r"no label 'kb'; choose from cross-entropy, accuracy, and .*kd, base"),
        (
            {"datasets": []},
            r"(?<!and )each dataset must be named once, at least one, but got none$",
        ),
    ],
)
def test_no_benchmark_has_what_is_asked_for(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchmarkError, match=f"^no built-in .* asked for: .*{message}"):
        load_benchmark(**asked)


# ---- files that look like the published ones, pinned anew


def entry(architecture: Any, **scores: float | None) -> dict[str, Any]:
    return {"arch": architecture.to_json()["choices"], **scores}


def architectures(count: int, seed: int = 0, space: str = "autoformer-ti") -> list[Any]:
    rng = random.Random(seed)
    return list(dict.fromkeys(get_space(space).sample(rng) for _ in range(count)))


@pytest.fixture
def pinned(pin: Pin) -> Any:
    """Install entries as the two AutoFormer files and pin those instead of the published ones."""

    def install(main: list[dict[str, Any]], extra: list[dict[str, Any]]) -> None:
        contents = {}
        for file, entries in zip(BENCHMARKS[VIT].files, (main, extra), strict=False):
            buffer = io.BytesIO()
            torch.save(entries, buffer)
            contents[file.name] = buffer.getvalue()
        pin(VIT, contents)

    return install


def test_extra_file_is_used_only_when_asked_for(pinned: Any) -> None:
    first, second = architectures(12), architectures(15, seed=1)
    shared = first[3]
    main = [entry(a, c100_kd_acc=float(i), c100_base_acc=float(i)) for i, a in enumerate(first)]
    extra = [entry(shared, c100_kd_acc=99.0, c100_base_acc=None)]
    extra += [entry(a, c100_kd_acc=50.0 + i, c100_base_acc=None) for i, a in enumerate(second)]
    extra.append({**extra[-1], "c100_kd_acc": 99.0})
    extra[5]["c100_kd_acc"] = None
    del extra[6]["c100_kd_acc"]
    extra[7]["c100_kd_acc"] = float("nan")
    pinned(main, extra)
    load = partial(load_benchmark, VIT, datasets=["cifar100"])
    assert load().architectures == tuple(first)
    assert "extra" not in load().source
    complete = second[:4] + second[7:]
    both = load(subset="all")
    assert both.architectures == (*first, *complete)
    assert both.scores["cifar100"].tolist() == [*range(12), *range(50, 54), *range(57, 65)]
    assert "24 architectures of gt_autoformer.pth" in both.source
    assert "gt_autoformer_2.pth (sha256" in both.source
    assert load(subset="extra").architectures == (shared, *complete)
    assert load(label="base").architectures == tuple(first)
    for subset in ("extra", "all"):
        with pytest.raises(BenchmarkError, match=r"_2\.pth must have base scores of cifar100"):
            load(label="base", subset=subset)


def test_main_file_must_have_each_architecture_once(pinned: Any) -> None:
    main = [entry(a, c100_kd_acc=float(i)) for i, a in enumerate(architectures(12))]
    pinned([*main, {**main[4], "c100_kd_acc": 99.0}], [])
    with pytest.raises(BenchmarkError, match=r"entry 12 must differ .*, but equals .*: entry 4$"):
        load_benchmark(VIT, datasets=["cifar100"])


@pytest.mark.parametrize("score", [None, float("nan"), float("inf")])
def test_main_file_must_be_complete(pinned: Any, score: float | None) -> None:
    main = [entry(a, c100_kd_acc=float(i)) for i, a in enumerate(architectures(12))]
    main[4]["c100_kd_acc"] = score
    pinned(main, [])
    rule = rf"gt_autoformer\.pth: entry 4 must have a finite c100_kd_acc, but got {score}"
    with pytest.raises(BenchmarkError, match=rule):
        load_benchmark(VIT, datasets=["cifar100"])


def test_architecture_of_a_file_must_be_of_its_space(pinned: Any) -> None:
    main = [entry(a, c100_kd_acc=float(i)) for i, a in enumerate(architectures(12))]
    main[4]["arch"]["hidden_dim"] = 200
    pinned(main, [])
    with pytest.raises(
        BenchmarkError, match=r"entry 4: hidden_dim must be one of 192, 216, 240, but"
    ):
        load_benchmark(VIT, datasets=["cifar100"])


def test_search_order(pinned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned([entry(a, c100_kd_acc=float(i)) for i, a in enumerate(architectures(12))], [])

    def found() -> str:
        return str(benchmark_info(VIT, tmp_path / "given").files[0].path)

    content = Path(found()).read_bytes()
    assert Path(found()).is_relative_to(tmp_path / "xdg")
    monkeypatch.setenv("AUTOPROX_DATA", str(tmp_path / "env"))
    for folder in ("env", "given"):
        path = tmp_path / folder / VIT / "gt_autoformer.pth"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        assert found() == str(path)


def test_info_is_plain_data(nowhere: Path) -> None:
    listed = {info.name: info for info in list_benchmarks()}
    assert list(listed) == list(BENCHMARKS)
    for info in listed.values():
        assert type(info).model_validate_json(info.model_dump_json()) == info
    info = listed[VIT]
    assert info.spaces == ["autoformer-ti", "pit"]
    assert list(info.labels["pit"]) == ["kd", "base"]
    assert info.datasets == {"cifar100": 100, "flowers": 102, "chaoyang": 4, "imagenet": 1000}
    assert (info.architectures, info.licence, info.installed) == (300, "Apache-2.0", False)
    assert (info.embedded, info.reliability) == (False, {})
    assert info.folders == [str(nowhere)]
    assert [file.status for file in info.files] == ["absent"] * 3


# ---- the registry


def test_descriptions_agree_with_spaces_and_data() -> None:
    for name, benchmark in BENCHMARKS.items():
        for file in benchmark.files:
            assert file.space == get_space(file.space).name, name
    assert BENCHMARKS["hw-gpt-bench"].classes["perplexity"] == GPT2_HW.vocabulary
    assert set(BENCHMARKS["nas-bench-bert"].classes.values()) == {FLEXIBERT.vocabulary}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"mine must be registered under its own name, 'vit-bench-101'"),
        ({"url": None}, r"must have either a url or a folder, but got \(url=None, folder=None\)"),
        ({"folder": Path("here")}, r"must have either a url or a folder, but got"),
        ({"labels": {}}, r"must have labels and a main file for each space, but labels of  and"),
        ({"classes": {"flowers": 102}}, r"must have the classes of cifar100; choose from flowers"),
    ],
)
def test_a_wrong_description_is_refused(changes: dict[str, Any], message: str) -> None:
    name = "mine" if not changes else VIT
    registry = Registry("none", "benchmark", BenchmarkError, benchmark_registry.validate_benchmark)
    with pytest.raises(BenchmarkError, match=message):
        registry.register(name, replace(BENCHMARKS[VIT], **changes))


def test_listing_needs_no_torch() -> None:
    code = "import sys; from autoprox import benchmarks; benchmarks.list_benchmarks(); "
    code += "print({'torch', 'scipy', 'pooch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("set()\n", "")
