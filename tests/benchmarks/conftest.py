"""A computer without benchmark files."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from helpers.serving import QuietHandler
from helpers.tables import Pin

from autoprox.benchmarks import (
    BENCHMARKS,
    BenchmarkError,
    BuiltInBenchmark,
    data_files,
    loading,
)
from autoprox.registry import Registry


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with no benchmark file; the user's cache is below the returned folder."""
    monkeypatch.delenv("AUTOPROX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "autoprox" / "vit-bench-101"


@pytest.fixture
def pin(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    """Install contents as files of a benchmark in the cache, pinned instead of the published ones.

    The benchmark's other files stay as they are, and are absent.
    """

    def install(name: str, contents: Mapping[str, bytes]) -> None:
        source, described = BENCHMARKS[name], []
        folder = nowhere.with_name(name)
        folder.mkdir(parents=True)
        for file in source.files:
            if (content := contents.get(file.name)) is not None:
                (folder / file.name).write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()
                file = replace(file, sha256=digest, size=len(content))
            described.append(file)
        changed = Registry[BuiltInBenchmark]("pinned", "benchmark", BenchmarkError)
        changed.register(name, replace(source, files=tuple(described)))
        monkeypatch.setattr(loading, "BENCHMARKS", changed)
        monkeypatch.setattr(data_files, "BENCHMARKS", changed)

    return install


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A folder and its address on this machine, where nothing is tried twice."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setattr(data_files, "RETRIES", 0)
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()
