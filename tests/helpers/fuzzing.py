"""Reads hostile contents in a process with little memory, and judges what comes of each.

A finding is: an error that isn't one line of the product's, a process or a connection that is
begun, a file that is written outside the folder, text that a terminal would obey, a lack of memory,
a process that ends, or a reader that takes too long.
"""

import contextlib
import hashlib
import io
import os
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

MEMORY = 2 * 2**30  # bytes of addresses, beyond what a target takes when it is made
SECONDS = 10.0  # of a processor, for one content
OWN_CHILD = "from autoprox.inputs.isolated_reading import write_arrays"
OUTSIDE = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link")
REFUSED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect")


class Finding(NamedTuple):
    """What was wrong with a content: in short, for the same is told once, and in full."""

    short: str
    full: str


class Watch:
    """Notes what the process does that a reader mustn't; it begins with the first `within`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen, self.on = str(folder.resolve()), list[str](), False
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in REFUSED or (event == "subprocess.Popen" and not self.is_own(args[1])):
            self.seen.append(f"{event} {args!r:.200}")
        elif event == "pickle.find_class":
            self.seen.append(f"{event} {args[1:]!r:.200}")
        elif event in OUTSIDE and isinstance(args[0], str | bytes):
            writes = event != "open" or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            path = os.path.abspath(os.fsdecode(args[0]))
            if writes and not path.startswith((self.folder, "/dev/", "/proc/")):
                self.seen.append(f"{event} of {path!r:.200} to write")

    @staticmethod
    def is_own(command: Any) -> bool:
        words = list(map(str, command))
        return words[0] == "git" or (words[0] == sys.executable and OWN_CHILD in words[2])

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        self.seen, self.on = [], True
        try:
            yield
        finally:
            self.on = False


@contextlib.contextmanager
def captured() -> Iterator[list[str]]:
    """What is printed herein, on both streams."""
    found: list[str] = []
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            yield found
        finally:
            for stream in streams:
                stream.flush()
                found.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]


def judged(target: Any, content: bytes, watch: Watch) -> Finding | None:
    """What was wrong when this was read; None if nothing was."""
    from autoprox.cli.app import message_and_code
    from autoprox.errors import AutoproxError, ellipsized_line

    finding = None
    with captured() as printed, watch.within(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            target.read(content)
        except (AutoproxError, OSError) as error:
            print(f"error: {ellipsized_line(message_and_code(error)[0])}")
        except Exception as error:
            finding = Finding(_place(error), "".join(traceback.format_exception(error)))
    if finding:
        return finding
    if Path("called").exists():
        Path("called").unlink()
        watch.seen.append("called")
    if watch.seen:
        return Finding(watch.seen[0], "\n".join(watch.seen))
    for line in "".join(printed).split("\n"):
        if not line.isprintable():
            return Finding("text that a terminal obeys", repr(line))
        if len(line) > 10_000:
            return Finding("a line without end", line[:500])
    return None


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/autoprox/" in f.filename or "/searchspaces/" in f.filename]
    last = (own or frames)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno} {last.name}"


def contents(target: Any, seed: str) -> Iterator[bytes]:
    """The seeds, and then mutations without end: the same for the same seed."""
    pool = list(target.seeds)
    yield from pool
    number = 0
    while True:
        rng = Random(f"{seed}-{number}")
        content = rng.choice(pool)
        for _ in range(rng.choice((1, 1, 1, 2))):
            content = target.mutate(content, pool, rng)
        yield content[: 2**22]
        number += 1


@contextlib.contextmanager
def sandbox() -> Iterator[Path]:
    """An empty folder as the current one, with all of the user's folders in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name, "inside").resolve()
        folder.mkdir()
        (folder.parent / "outside").mkdir()
        (folder / "evil.py").write_text("from pathlib import Path\nPath('called').touch()\n")
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def limit_memory() -> None:
    """From now on the process may take so much more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def name_of(content: bytes) -> str:
    """A name for a file of this content."""
    return hashlib.sha256(content).hexdigest()[:12]
