"""The folder of statistics: what is kept there, for how long, and shared storage."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from helpers.measuring import Conditions, assert_equal, cached, read

from autoprox.errors import ConfigError
from autoprox.files import folder_checks
from autoprox.files.folder_checks import DiskFullError
from autoprox.language import STATISTICS
from autoprox.searchspaces import Architecture
from autoprox.statistics import collector
from autoprox.statistics.matrix_cache import trim_statistic_cache
from autoprox.statistics.statistic_files import SharedStatisticFolder, StorageError

MakeSetting = Callable[..., Conditions]

ACT, GRAD, WEIGHT = (STATISTICS[name] for name in ("mlp.act", "msa.grad", "msa.weight"))
NEEDS = {ACT, GRAD, WEIGHT}
UNFINISHED = f".{'0' * 62}.1-2.part"
EVERY = [s for s in STATISTICS.values() if s.domain != "all"]


def ages(folder: Path, paths: Iterable[Path]) -> None:
    """Let the files have been used one hour after the other, long ago."""
    for hour, path in enumerate(paths):
        os.utime(path, (3600 * hour, 3600 * hour))


def test_the_least_recently_used_files_go_beyond_the_limit(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
) -> None:
    cached(setting(), architectures, NEEDS, folder=tmp_path)
    paths = sorted(tmp_path.glob("??/*"))
    ages(tmp_path, paths)
    newest = paths[-4:]
    limit = sum(path.stat().st_size for path in newest)
    given = {"folder": tmp_path, "limit": limit, "age": 36_500}
    cached(setting(seed=9), architectures[:1], [WEIGHT], **given)
    left = set(tmp_path.glob("??/*"))
    assert set(paths) & left == set(newest)
    assert len(left) == len(newest) + 1


def test_use_makes_a_file_recent_and_what_is_needed_stays(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
) -> None:
    cached(setting(), architectures, [WEIGHT], folder=tmp_path)
    paths = sorted(tmp_path.glob("??/*"))
    ages(tmp_path, paths)
    measured.clear()
    cached(setting(), architectures[:2], [WEIGHT], folder=tmp_path, limit=0)
    assert measured == []
    left = sorted(tmp_path.glob("??/*"))
    assert len(left) == 2
    assert all(path.stat().st_mtime > 3600 * len(paths) for path in left)


def test_a_folder_in_use_is_not_trimmed(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
) -> None:
    user = cached(setting(), architectures, [WEIGHT], folder=tmp_path, memory=0)
    (next(tmp_path.glob("??")) / UNFINISHED).touch()
    paths = set(tmp_path.glob("??/*"))
    cached(setting(seed=9), architectures[:1], [GRAD], folder=tmp_path, limit=0)
    assert paths < set(tmp_path.glob("??/*"))
    assert len(read(user, [WEIGHT])) > 0
    del user
    cached(setting(seed=9), architectures[:1], [GRAD], folder=tmp_path, limit=0)
    assert not paths & set(tmp_path.glob("??/*"))


def test_files_unused_for_too_long_go(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    cached(setting(), architectures[:4], [WEIGHT], folder=tmp_path)
    paths = sorted(tmp_path.glob("??/*"))
    for path, days in zip(paths, (0, 29.9, 30.1, 400), strict=True):
        used = time.time() - days * 86_400
        os.utime(path, (used, used))
    cached(setting(seed=9), architectures[:1], [WEIGHT], folder=tmp_path, age=30)
    assert set(paths) & set(tmp_path.glob("??/*")) == set(paths[:2])


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (collector, "CODE_VERSION", "0.0.9"),
        (collector, "MEASUREMENT_FORMAT", 1),
        (torch, "__version__", "2.0"),
        (torch.backends.cpu, "get_cpu_capability", lambda: "AVX1024"),
    ],
    ids=lambda own: own if isinstance(own, str) else None,
)
def test_what_another_version_measured_is_never_read(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
    place: Any,
    name: str,
    value: Any,
) -> None:
    cached(setting(), architectures[:1], [WEIGHT], folder=tmp_path)
    before = set(tmp_path.glob("??/*"))
    monkeypatch.setattr(place, name, value)
    cached(setting(), architectures[:1], [WEIGHT], folder=tmp_path)
    assert len(measured) == 2
    assert len(set(tmp_path.glob("??/*")) - before) == len(before) == 1


def test_statistics_that_do_not_fit_on_the_disk_are_told_before_it_is_full(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folder_checks, "free_bytes", lambda folder: 2_000)
    rule = (
        r"about [\d.]+K?B of statistics more must fit on the disk, but .* has 2KB free: make room"
    )
    with pytest.raises(DiskFullError, match=rule):
        cached(setting(), architectures, [WEIGHT], folder=tmp_path)
    assert len(list(tmp_path.glob("??/*"))) == 1


def test_statistics_that_fit_on_the_disk_are_measured(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached(setting(), architectures, [WEIGHT], folder=tmp_path / "one")
    size = sum(path.stat().st_size for path in (tmp_path / "one").glob("??/*"))
    monkeypatch.setattr(folder_checks, "free_bytes", lambda folder: 2 * size)
    cached(setting(), architectures, [WEIGHT], folder=tmp_path / "two")
    assert (
        folder_checks.disk_usage(tmp_path / "two")[:2]
        == folder_checks.disk_usage(tmp_path / "one")[:2]
    )


SHARED = "memory://bucket/statistics"


@pytest.fixture
def shared() -> Iterator[MemoryFileSystem]:
    """Storage that other machines see too, empty."""
    system = MemoryFileSystem()
    system.store.clear()
    yield system
    system.store.clear()


def test_what_is_shared_is_measured_once(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    shared: MemoryFileSystem,
    measured: list[tuple[Architecture, dict[str, set[str]]]],
) -> None:
    """On another machine, whose folder is empty; but for a file there that isn't whole."""
    machines = [tmp_path / name for name in "abc"]
    given = {"shared": SharedStatisticFolder(SHARED)}
    first = read(cached(setting(), architectures, NEEDS, folder=machines[0], **given), NEEDS)
    measured.clear()
    again = cached(setting(), architectures, NEEDS, folder=machines[1], workers=2, **given)
    assert measured == []
    assert_equal(read(again, NEEDS), first)
    files = [path for path in shared.find("/") if shared.isfile(path)]
    assert len(files) == len(list(machines[1].glob("??/*")))
    shared.pipe_file(files[0], shared.cat_file(files[0])[:-4] + b"torn")
    cached(setting(), architectures, NEEDS, folder=machines[2], **given)
    assert len(measured) == 1
    whole = {path.name: path.read_bytes() for path in machines[0].glob("??/*")}
    assert {Path(path).name: shared.cat_file(path) for path in files} == whole


def test_storage_that_fails_is_told(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    wrong = SharedStatisticFolder(f"file://{tmp_path}/file")
    with pytest.raises(StorageError, match="must be readable and writable, but of file:"):
        cached(setting(), architectures, [WEIGHT], folder=tmp_path / "a", shared=wrong)
    with pytest.raises(ConfigError, match="an URL that fsspec can open, but of nothing://x"):
        SharedStatisticFolder("nothing://x")


def test_unfinished_files_are_removed(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / UNFINISHED).write_bytes(b"half")
    cached(setting(), architectures[:1], [WEIGHT], folder=tmp_path)
    assert not list(tmp_path.glob("??/.*.part"))


def test_what_else_is_in_the_folder_stays(
    setting: MakeSetting, architectures: list[Architecture], tmp_path: Path
) -> None:
    """A run says in which folder its cache is, and may be a stranger's."""
    foreign = [tmp_path / "ab" / name for name in ("thesis.tex", "film.part", ".x.part", "0" * 61)]
    (tmp_path / "ab").mkdir()
    for path in foreign:
        path.write_text("years of work")
    cached(setting(), architectures[:1], [WEIGHT], folder=tmp_path, limit=0)
    trim_statistic_cache(tmp_path)
    assert sorted(tmp_path.glob("??/*")) == sorted(foreign)
