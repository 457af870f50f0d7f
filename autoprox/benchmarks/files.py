"""The files of the built-in benchmarks: where they lie, whether they are right, their download."""

import hashlib
import http.client
import os
import urllib.request
from pathlib import Path

from autoprox.benchmarks.base import BenchmarkError, DataFile, Source
from autoprox.files.atomic import write_bytes

DOWNLOAD_LIMIT = 64 * 2**20
TIMEOUT = 30.0  # seconds without an answer
PACKAGE_DATA = Path(__file__).parent.parent / "data"


def data_folders(source: Source, data_dir: Path | None) -> list[Path]:
    """Where the files of a benchmark are looked for, in order.

    `data_dir`, `$AUTOPROX_DATA` and the user's cache, each with a folder of the benchmark's name;
    for an embedded benchmark, the package alone.
    """
    if source.embedded:
        return [PACKAGE_DATA]
    given = [data_dir, os.environ.get("AUTOPROX_DATA"), user_cache()]
    return [Path(os.path.expanduser(folder), source.name) for folder in given if folder]


def find(source: Source, file: DataFile, data_dir: Path | None) -> Path | None:
    """The first file of this name; its content isn't looked at."""
    paths = (folder / file.name for folder in data_folders(source, data_dir))
    return next((path for path in paths if os.path.exists(path)), None)


def status(path: Path | None, file: DataFile) -> str:
    """`absent`, `changed` (it isn't the published file) or `installed`."""
    if path is None:
        return "absent"
    return "installed" if _sha256(_content(path)) == file.sha256 else "changed"


def read_verified(source: Source, file: DataFile, data_dir: Path | None) -> bytes:
    """The content of a file, after its hash has been checked."""
    fetch = f"`autoprox bench fetch {source.name}`"
    path = find(source, file, data_dir)
    if path is None:
        looked = ", ".join(map(str, data_folders(source, data_dir)))
        raise BenchmarkError(
            f"{source.name} needs {file.name}, which is not in {looked}: {fetch} downloads it, "
            "and nano-vit-bench or a table of your own (--benchmark NAME|FILE) needs no download"
        )
    content = _content(path)
    if (found := _sha256(content)) != file.sha256:
        size = f"{len(content)} bytes" + (f" of {file.size}" if file.size else "")
        raise BenchmarkError(
            f"{path} must have sha256 {file.sha256}, but has {found} ({size}): {fetch} replaces it"
        )
    return content


def fetch_files(source: Source, data_dir: Path | None, url: str) -> list[dict[str, str]]:
    """Download what is absent or wrong from below `url`; say for each file what was done."""
    done = []
    for file in source.files:
        path = find(source, file, data_dir)
        result = status(path, file)
        if path is None:
            folders = data_folders(source, data_dir)
            path = folders[0 if data_dir else -1] / file.name
        if result != "installed":
            _store(_download(f"{url}/{file.name}", file), path)
            result = "downloaded"
        done.append({"file": file.name, "path": str(path), "status": result})
    return done


def _download(url: str, file: DataFile) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            content: bytes = response.read(DOWNLOAD_LIMIT)
    except (OSError, http.client.HTTPException) as error:
        raise BenchmarkError(f"{url} could not be downloaded: {error}") from error
    if (found := _sha256(content)) != file.sha256:
        raise BenchmarkError(f"{url} must have sha256 {file.sha256}, but has {found}: not stored")
    return content


def _store(content: bytes, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        raise BenchmarkError(f"{path} must be writable, but got: {error.strerror}") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkError(
            f"{path} must be a readable file, but got: {error.strerror}"
        ) from error


def user_cache() -> Path:
    """Where downloads and measured statistics are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "autoprox"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
