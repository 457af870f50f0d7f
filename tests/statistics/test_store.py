"""The store: what it measures, keeps, reads again and removes."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.measuring import Conditions, assert_equal, cached, read, streamed
from helpers.networks import SPACE, noise, tiny
from torch import Tensor

from autoprox.errors import MeasurementError
from autoprox.language import STATISTICS
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture
from autoprox.statistics.collector import collect_statistics
from autoprox.statistics.matrix_cache import CachedMatrices

MakeSetting = Callable[..., Conditions]

ACT, GRAD, WEIGHT = (STATISTICS[name] for name in ("mlp.act", "msa.grad", "msa.weight"))
NEEDS = {ACT, GRAD, WEIGHT}
UNFINISHED = f".{'0' * 62}.1-2.part"
EVERY = [s for s in STATISTICS.values() if s.domain != "all"]


@pytest.mark.parametrize("stride", [1, 3])
def test_every_matrix_stands_at_its_layer(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path, stride: int
) -> None:
    """Against the collector, network by network and dataset by dataset."""
    chosen, architectures = setting(stride=stride), architectures[:3]
    expected = {}
    for dataset, batch in enumerate(chosen.batches.values()):
        position = dict.fromkeys(EVERY, 0)
        for arch in architectures:
            seed = chosen.network_seed(arch)
            network = SPACE.build(arch, batch.classes, seed)
            for statistic, matrices in collect_statistics(
                network, batch, EVERY, seed=seed, stride=stride
            ).items():
                for matrix in matrices:
                    expected[str(statistic), dataset, position[statistic]] = matrix
                    position[statistic] += 1
    kept = cached(chosen, architectures, EVERY, folder=tmp_path)
    assert_equal(read(kept, EVERY), expected)
    assert_equal(read(streamed(chosen, architectures, 1), EVERY), expected)


def test_a_statistic_that_datasets_share_is_measured_once(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
) -> None:
    cached(setting(), architectures, NEEDS, folder=tmp_path)
    first = {"few": {"mlp.act", "msa.grad", "msa.weight"}}
    rest = {"many": {"msa.grad"}, "other": {"mlp.act", "msa.grad"}}
    assert measured == [(arch, {**first, **rest}) for arch in architectures]
    assert len(list(tmp_path.glob("??/*"))) == 6 * len(architectures)


def test_a_later_store_measures_only_what_is_new(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
) -> None:
    first = read(cached(setting(), architectures[:4], NEEDS, folder=tmp_path), NEEDS)
    measured.clear()
    again = cached(setting(), architectures[:4], NEEDS, folder=tmp_path)
    assert measured == []
    assert_equal(read(again, NEEDS), first)
    cached(setting(), architectures, [WEIGHT], folder=tmp_path)
    assert measured == [(architectures[4], {"few": {"msa.weight"}})]
    measured.clear()
    cached(setting(seed=1), architectures[:1], [WEIGHT], folder=tmp_path)
    assert len(measured) == 1


def broken_files(path: Path) -> dict[str, bytes]:
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    values = whole[start:]

    def with_header(header: object) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + values

    header = json.loads(whole[8:start])
    negative = {k: {**v, "shape": [-1, -1]} for k, v in header.items() if k != "__metadata__"}
    short = {"0": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}}
    return {
        "empty": b"",
        "cut in the header": whole[:12],
        "cut after the header": whole[:start],
        "cut in the values": whole[:-1],
        "longer": whole + b"\0",
        "noise": bytes(range(256)) * 4,
        "a number": with_header(5),
        "no pairs": with_header({"0": {"shape": [1, 2, 3], "data_offsets": [0, 4]}}),
        "a list": with_header([[1, 1]]),
        "other shapes": with_header(short),
        "no shape": with_header(negative),
        "a flipped bit": whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:],
        "not a number": whole[:start] + b"\xff" * 4 + values[4:],
        "no checksum": with_header({k: v for k, v in header.items() if k != "__metadata__"}),
    }


def test_a_broken_file_is_measured_again(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
) -> None:
    archs = architectures[:3]
    expected = read(cached(setting(), archs, [GRAD], folder=tmp_path), [GRAD])
    path = tmp_path / (key := setting().key(archs[1], "many", GRAD))[:2] / key[2:]
    whole = path.read_bytes()
    for content in broken_files(path).values():
        path.write_bytes(content)
        measured.clear()
        again = cached(setting(), archs, [GRAD], folder=tmp_path)
        assert measured == [(archs[1], {"many": {"msa.grad"}})]
        assert path.read_bytes() == whole
        assert_equal(read(again, [GRAD]), expected)


def test_what_was_measured_by_other_instructions_is_measured_again(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached(setting(), architectures[:1], [GRAD], folder=tmp_path)
    files = set(tmp_path.glob("??/*"))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "Z80")
    measured.clear()
    cached(setting(), architectures[:1], [GRAD], folder=tmp_path)
    assert len(measured) == 1
    assert files < set(tmp_path.glob("??/*"))


def test_a_file_that_changes_while_it_is_in_use_is_an_error(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    streamed = cached(setting(), architectures, [GRAD], folder=tmp_path, memory=0)
    path = next(tmp_path.glob("??/*"))
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(MeasurementError, match=rf"{path.name} must stay as it was written"):
        read(streamed, [GRAD])


def test_a_file_that_goes_while_others_are_measured_is_an_error(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = cached(setting(), architectures, [GRAD, WEIGHT], folder=tmp_path)
    next(tmp_path.glob("??/*")).unlink()
    with pytest.raises(MeasurementError, match="must stay as it was written"):
        read(kept, [GRAD, WEIGHT])


def test_nothing_unfinished_stays_where_writing_fails(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        cached(setting(), architectures, [WEIGHT], folder=tmp_path)
    assert list(tmp_path.glob("??/*")) == []


def test_stores_may_write_to_one_folder_at_once(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    expected = read(streamed(setting(), architectures, 1), NEEDS)
    found: list[dict[tuple[str, int, int], Tensor]] = []

    def use() -> None:
        kept = cached(setting(), architectures, NEEDS, folder=tmp_path, workers=2, memory=0)
        found.append(read(kept, NEEDS))

    run_threads(4, [use] * 4)
    assert len(found) == 4
    for values in found:
        assert_equal(values, expected)
    assert not list(tmp_path.glob("??/*.part"))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_resident_matrices_stay_within_the_memory(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path, share: float
) -> None:
    all_of_them = cached(setting(), architectures, NEEDS, folder=tmp_path)
    expected = read(all_of_them, NEEDS)
    memory = int(share * resident(all_of_them))
    kept = cached(setting(), architectures, NEEDS, folder=tmp_path, memory=memory)
    assert resident(kept) <= memory
    assert (resident(kept) > 0) == (share > 0)
    assert_equal(read(kept, NEEDS), expected)


def resident(kept: CachedMatrices) -> int:
    return sum(own.resident_bytes for own in set(kept.packed.values()))


def test_layers_of_each_domain() -> None:
    archs = [tiny(8, (1, 1.0), (1, 1.0)), tiny(8, (1, 1.0))]
    layers = streamed(Conditions(SPACE, {"few": noise(4)}), archs, 1).layers
    assert layers.structures[0].domains == (("msa", "msa", "mlp", "mlp"),) * 2
    counts = {domain: layers.starts[domain].tolist() for domain in ("msa", "mlp", "all", "block")}
    assert counts == {"msa": [0, 4, 6], "mlp": [0, 4, 6], "all": [0, 8, 12], "block": [0, 2, 3]}


def test_where_mps_has_no_float64_the_cpu_reduces(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    on_mps = streamed(setting(device=torch.device("mps")), architectures, 1)
    assert on_mps.device == torch.device("cpu")
    on_cuda = streamed(setting(device=torch.device("cuda")), architectures, 1)
    assert on_cuda.device == torch.device("cuda")


def test_datasets_of_the_same_statistics_are_variants(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    source = streamed(setting(), architectures, 1)
    assert source.variants([WEIGHT]) == [[0, 1, 2]]
    assert source.variants([ACT]) == [[0, 1], [2]]
    assert source.variants([GRAD, WEIGHT]) == [[0], [1], [2]]
    assert source.variants([replace(GRAD, probe="ones")]) == [[0, 2], [1]]
