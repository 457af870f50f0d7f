"""The files of the built-in benchmarks: where they are, whether they are right, their download."""

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from autoprox.benchmarks.benchmark import BenchmarkError
from autoprox.benchmarks.benchmark_registry import (
    BENCHMARKS,
    BuiltInBenchmark,
    PinnedBenchmarkFile,
    PinnedBenchmarkFolder,
)
from autoprox.benchmarks.info_documents import BenchmarkFile, BenchmarkInfo, FetchedFile, FileStatus
from autoprox.errors import FailureError, one_line
from autoprox.files.atomic_writes import replace_folder
from autoprox.files.folder_checks import require_folder, user_cache_folder
from autoprox.files.rerun_command import rerun_command_line
from autoprox.files.tar_archives import read_folders

MAX_FILE_BYTES = 2**26  # many times the size of any
TIMEOUT = 30.0  # seconds without an answer
TOTAL_TIME = 300.0  # seconds for a file
DOWNLOAD_BLOCK = 2**16
RETRIES = 2
MAX_FOLDER_FILES = 10_000

Content = bytes | dict[str, bytes]  # of a file, or of the files below a folder


class DownloadError(BenchmarkError, FailureError):
    """A file that its public source didn't give."""


def list_benchmarks(data_dir: Path | None = None) -> list[BenchmarkInfo]:
    """Describe every built-in benchmark."""
    return [benchmark_info(name, data_dir) for name in BENCHMARKS]


def benchmark_info(name: str, data_dir: Path | None = None) -> BenchmarkInfo:
    """Describe a built-in benchmark, its licence and source, and the state of its files."""
    source = BENCHMARKS.find(name)
    files = [_file_info(source, file, data_dir) for file in source.files]
    return BenchmarkInfo(
        name=source.name,
        description=source.description,
        spaces=list(source.labels),
        labels={
            space: {label: list(datasets) for label, datasets in labels.items()}
            for space, labels in source.labels.items()
        },
        datasets={dataset: source.classes[dataset] for dataset in source.datasets},
        subsets={space: list(source.subsets(space)) for space in source.labels},
        architectures=sum(file.architectures for file in source.files),
        licence=source.licence,
        source=source.origin,
        reliability={space: dict(taus) for space, taus in source.reliability.items()},
        embedded=source.embedded,
        installed=all(file.status == "installed" for file in files if file.subset == "main"),
        folders=[str(folder) for folder in data_folders(source, data_dir)],
        files=files,
    )


def _file_info(
    source: BuiltInBenchmark, file: PinnedBenchmarkFile, data_dir: Path | None
) -> BenchmarkFile:
    path = find_data_file(source, file, data_dir)
    state: FileStatus
    try:
        state = data_file_status(path, file)
    except BenchmarkError:  # of one file, which mustn't hide the others
        state = "unreadable"
    return BenchmarkFile(
        file=file.name,
        space=file.space,
        subset=file.subset,
        architectures=file.architectures,
        bytes=file.size,
        sha256=file.sha256,
        status=state,
        path=None if path is None else str(path),
    )


def data_folders(source: BuiltInBenchmark, data_dir: Path | None) -> list[Path]:
    """The folders in which the files of a benchmark are looked for, in order.

    `data_dir`, `$AUTOPROX_DATA` and the user's cache, each with a folder of the benchmark's name;
    for an embedded benchmark, its package's folder alone.
    """
    if data_dir is not None:
        require_folder("data_dir", data_dir)
    if source.folder is not None:
        return [source.folder]
    folders = [data_dir, os.environ.get("AUTOPROX_DATA"), user_cache_folder()]
    return [Path(os.path.expanduser(folder), source.name) for folder in folders if folder]


def find_data_file(
    source: BuiltInBenchmark, file: PinnedBenchmarkFile, data_dir: Path | None
) -> Path | None:
    """The path of the first file of this name, whatever its content."""
    paths = (folder / file.name for folder in data_folders(source, data_dir))
    return next((path for path in paths if os.path.exists(path)), None)


def data_file_status(path: Path | None, file: PinnedBenchmarkFile) -> FileStatus:
    """`absent`, `changed` (it isn't the published file) or `installed`."""
    if path is None:
        return "absent"
    return "installed" if _digest(_content(path, file)) == file.sha256 else "changed"


def read_verified_file(
    source: BuiltInBenchmark, file: PinnedBenchmarkFile, data_dir: Path | None
) -> Any:
    """The content of a file or folder, after its hash has been checked."""
    fetch = f"`{rerun_command_line('bench', 'fetch', source.name)}`"
    path = find_data_file(source, file, data_dir)
    if path is None:
        looked = ", ".join(map(str, data_folders(source, data_dir)))
        raise BenchmarkError(
            f"{source.name} needs {file.name}, which is not in {looked}: {fetch} downloads it, "
            "and nano-bench or a table of your own (--benchmark NAME|FILE) needs no download"
        )
    content = _content(path, file)
    if (sha256 := _digest(content)) != file.sha256:
        size = f"{len(content)} bytes" + (f" of {file.size}" if file.size else "")
        if isinstance(file, PinnedBenchmarkFolder):
            size = f"{len(content)} files of {file.files}"
        raise BenchmarkError(
            f"{path} must have sha256 {file.sha256}, but has {sha256} ({size}): {fetch} replaces it"
        )
    return content


def _digest(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    lines = (f"{path} {hashlib.sha256(own).hexdigest()}\n" for path, own in content.items())
    return hashlib.sha256("".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _content(path: Path, file: PinnedBenchmarkFile) -> Content:
    return _folder(path) if isinstance(file, PinnedBenchmarkFolder) else _file(path)


def _folder(path: Path) -> dict[str, bytes]:
    """The files below a folder, which must be plain ones."""
    try:
        if not path.is_dir():
            raise OSError(None, "no folder")
        found: dict[str, bytes] = {}
        for folder, folders, names in os.walk(path, onerror=_raise):
            for inner in (Path(folder, name) for name in (*folders, *names)):
                if inner.is_symlink() or not (inner.is_dir() or inner.is_file()):
                    raise OSError(None, f"{inner.relative_to(path)}, which is no plain file")
            for name in names:
                if len(found) >= MAX_FOLDER_FILES:
                    raise OSError(None, f"more than {MAX_FOLDER_FILES} files")
                inner = Path(folder, name)
                found[inner.relative_to(path).as_posix()] = _file(inner)
        return found
    except OSError as error:
        raise BenchmarkError(
            f"{path} must be a readable folder, but got: {error.strerror}"
        ) from error


def _raise(error: OSError) -> None:
    raise error


def _file(path: Path) -> bytes:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            raise OSError(None, f"no file of at most {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        got = error.strerror
        raise BenchmarkError(f"{path} must be a readable file, but got: {got}") from error


def fetch_benchmark(name: str, data_dir: Path | None = None) -> list[FetchedFile]:
    """Download the files of a benchmark that are absent or changed, checked by their sha256.

    A new file goes below `data_dir`, or else the user's cache; a changed one is replaced where it
    is. Returns nothing if the files come with the package.
    """
    source = BENCHMARKS.find(name)
    data_folders(source, data_dir)  # which must be folders
    return [] if source.embedded else fetch_missing_files(source, data_dir)


def fetch_missing_files(source: BuiltInBenchmark, data_dir: Path | None) -> list[FetchedFile]:
    """Download what is absent or wrong; say for each file what was done."""
    done: list[FetchedFile] = []
    absent: dict[Path, PinnedBenchmarkFolder] = {}
    for file in source.files:
        path = find_data_file(source, file, data_dir)
        installed = data_file_status(path, file) == "installed"
        if path is None:
            folders = data_folders(source, data_dir)
            path = folders[0 if data_dir else -1] / file.name
        if not installed and isinstance(file, PinnedBenchmarkFolder):
            absent[path] = file
        elif not installed:
            _download(f"{source.url}/", file, path)
        state: Literal["installed", "downloaded"] = "installed" if installed else "downloaded"
        done.append(FetchedFile(file=file.name, path=str(path), status=state))
    if absent:
        _download_folders(str(source.url), absent)
    return done


def _download_folders(url: str, folders: Mapping[Path, PinnedBenchmarkFolder]) -> None:
    """Download an archive and store these of its folders, once all of them have their hash."""
    import requests  # takes a tenth of a second
    from urllib3.exceptions import HTTPError

    with tempfile.TemporaryDirectory() as temporary:
        archive = Path(temporary, "archive.tar.gz")
        for left in reversed(range(RETRIES + 1)):
            try:
                _stream(url, str(archive), None)
                break
            except (requests.RequestException, HTTPError) as error:
                if not left:
                    reason = one_line(error)
                    raise DownloadError(f"{url} could not be downloaded: {reason}") from error
        inside = {file: f"{file.within}/{file.name}" for file in folders.values()}
        contents = read_folders(archive, inside.values(), url)
    for file, folder in inside.items():
        if (sha256 := _digest(contents[folder])) != file.sha256:
            got = f"{sha256} ({len(contents[folder])} files of {file.files}): not stored"
            raise BenchmarkError(f"{folder} of {url} must have sha256 {file.sha256}, but has {got}")
    for path, file in folders.items():
        try:
            replace_folder(path, contents[inside[file]])
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise BenchmarkError(f"{path} must be writable, but got: {reason}") from error


def _download(folder: str, file: PinnedBenchmarkFile, path: Path) -> None:
    """Store the file when all of it is there and has its hash."""
    import pooch  # takes a tenth of a second, and requests behind it more
    import requests

    pooch.get_logger().setLevel("WARNING")
    registry = {file.name: file.sha256}
    fetcher = pooch.Pooch(path.parent, folder, registry, retry_if_failed=RETRIES)
    url = fetcher.get_url(file.name)
    try:
        fetcher.fetch(file.name, downloader=_stream)
    except requests.RequestException as error:
        raise DownloadError(f"{url} could not be downloaded: {one_line(error)}") from error
    except ValueError as error:
        rule = f"{url} must have sha256 {file.sha256}, but has another: not stored"
        raise BenchmarkError(rule) from error
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise BenchmarkError(f"{path} must be writable, but got: {reason}") from error


def _stream(url: str, file: str, fetcher: object) -> None:
    """Write the server's answer, whose size and time are limited."""
    import requests  # as above

    deadline = time.monotonic() + TOTAL_TIME
    with requests.get(url, stream=True, timeout=TIMEOUT) as answer, open(file, "wb") as output:
        answer.raise_for_status()
        # Not `read`, which would wait for the whole block however slowly it comes.
        while block := answer.raw.read1(DOWNLOAD_BLOCK, decode_content=True):
            output.write(block)
            if output.tell() > MAX_FILE_BYTES or time.monotonic() > deadline:
                rule = f"at most {MAX_FILE_BYTES} bytes in {TOTAL_TIME:g} seconds"
                raise DownloadError(f"{url} must be {rule}, but is more or slower")
