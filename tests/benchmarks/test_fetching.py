"""The download of benchmarks, from a server on this machine."""

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.serving import QuietHandler

from autoprox.benchmarks import (
    BENCHMARKS,
    BenchmarkError,
    BuiltInBenchmark,
    data_files,
)
from autoprox.benchmarks.data_files import DownloadError, fetch_missing_files
from autoprox.errors import ConfigError

VIT = "vit-bench-101"


def published(served: tuple[str, Path]) -> BuiltInBenchmark:
    """A benchmark whose two files are served."""
    url, folder = served
    source, described = BENCHMARKS[VIT], []
    for file, content in zip(source.files, (b"first", b"second"), strict=False):
        (folder / file.name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        described.append(replace(file, sha256=digest))
    return replace(source, files=tuple(described), url=url)


def test_fetch_into_the_cache_and_again(nowhere: Path, served: tuple[str, Path]) -> None:
    _, folder = served
    source = published(served)
    done = fetch_missing_files(source, None)
    assert [item.status for item in done] == ["downloaded"] * 2
    assert {p.name: p.read_bytes() for p in nowhere.iterdir()} == {
        "gt_autoformer.pth": b"first",
        "gt_autoformer_2.pth": b"second",
    }
    for path in folder.iterdir():
        path.unlink()
    assert [item.status for item in fetch_missing_files(source, None)] == ["installed"] * 2


def test_fetch_replaces_a_changed_file_where_it_lies(
    nowhere: Path, served: tuple[str, Path], tmp_path: Path
) -> None:
    given = tmp_path / "given" / VIT / "gt_autoformer.pth"
    given.parent.mkdir(parents=True)
    given.write_bytes(b"fir")
    done = fetch_missing_files(published(served), tmp_path / "given")
    assert [Path(item.path).parent for item in done] == [given.parent] * 2
    assert given.read_bytes() == b"first"
    assert not nowhere.exists()


def test_fetch_stores_nothing_wrong(
    nowhere: Path, served: tuple[str, Path], tmp_path: Path
) -> None:
    _, folder = served
    source = published(served)
    (folder / "gt_autoformer.pth").write_bytes(b"fir")
    with pytest.raises(
        BenchmarkError, match=r"gt_autoformer\.pth must have sha256 \w+, but has another"
    ):
        fetch_missing_files(source, None)
    (folder / "gt_autoformer.pth").unlink()
    with pytest.raises(
        BenchmarkError, match=r"could not be downloaded: HTTPError: 404 Client Error"
    ):
        fetch_missing_files(source, None)
    assert not list(nowhere.iterdir())
    published(served)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"data_dir must be a folder, but .*file is a file"):
        fetch_missing_files(source, tmp_path / "file")


def test_fetch_tries_again(
    nowhere: Path, served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "RETRIES", 1)
    monkeypatch.setattr(QuietHandler, "failures", 1)
    assert [item.status for item in fetch_missing_files(published(served), None)] == [
        "downloaded"
    ] * 2
    assert (nowhere / "gt_autoformer.pth").read_bytes() == b"first"


def test_fetch_without_network(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "RETRIES", 0)
    refused = r"could not be downloaded: .*(refused|unreach)"
    with pytest.raises(BenchmarkError, match=refused) as caught:
        fetch_missing_files(replace(BENCHMARKS[VIT], url="http://127.0.0.1:1"), None)
    assert "\n" not in str(caught.value)
    assert not list(nowhere.parent.rglob("*.pth"))


@pytest.mark.parametrize(("limit", "value"), [("TOTAL_TIME", 0.5), ("MAX_FILE_BYTES", 5)])
def test_a_server_that_drips(
    served: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
) -> None:
    monkeypatch.delenv("AUTOPROX_DATA", raising=False)
    monkeypatch.setattr(data_files, limit, value)
    monkeypatch.setattr(QuietHandler, "drips", True)
    begin = time.monotonic()
    with pytest.raises(DownloadError, match=r"must be at most .* but is more or slower$"):
        fetch_missing_files(published(served), tmp_path / "data")
    assert time.monotonic() - begin < 5
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
