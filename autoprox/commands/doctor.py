"""The command `doctor`: versions, devices, data, the cache, and what can't be used or written."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.benchmarks import list_benchmarks
from autoprox.commands.cache import CacheFacts, cache_facts
from autoprox.files.folder_checks import is_writable
from autoprox.files.json_documents import JSONDocument
from autoprox.runs.folder import environment
from autoprox.statistics.collector import resolve_device

OPTIONAL_PACKAGES = (
    *("torchvision", "timm", "transformers"),  # models of these libraries
    *("matplotlib", "pandas"),  # plots and data frames
    "distributed",  # the backend dask
)
IMPORT_SECONDS = 120  # for the imports
MARK = "autoprox imports"
PROGRAM = """
import sys
from autoprox.errors import one_line
for name in sys.argv[2:]:
    try:
        __import__(name)
        reason = ""
    except BaseException as error:
        reason = one_line(error)
    print(sys.argv[1], name, reason, flush=True)
"""


class WritableFolder(JSONDocument):
    """A folder, and whether it can be written."""

    folder: str
    writable: bool


class MachineFacts(JSONDocument):
    """The facts that a bug report needs, and the packages that can't be used."""

    python: str
    packages: dict[str, str]
    platform: str
    device: str
    threads: int
    benchmarks: dict[str, bool]
    imports: Annotated[
        dict[str, str],
        Field(description="Optional packages that can't be imported, and why."),
    ]
    cache: CacheFacts
    runs: WritableFolder


def machine_facts(data_dir: Path | None = None) -> MachineFacts:
    """Return the facts of this machine."""
    known = environment(resolve_device("auto"))
    return MachineFacts(
        **known.model_dump(include={"python", "packages", "platform", "device", "threads"}),
        benchmarks={
            found.name: found.embedded or found.installed for found in list_benchmarks(data_dir)
        },
        imports=failed_imports(),
        cache=cache_facts(),
        runs=WritableFolder(
            folder=str(Path("runs").absolute()), writable=is_writable(Path("runs"))
        ),
    )


def failed_imports(names: Sequence[str] = OPTIONAL_PACKAGES) -> dict[str, str]:
    """Return why each of these packages that is installed can't be imported.

    They are tried in another process. If a package ends it, the rest are tried in a new one.
    """
    left = [name for name in names if find_spec(name) is not None]
    found: dict[str, str] = {}
    while left:
        command, ended = [sys.executable, "-c", PROGRAM, MARK, *left], ""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS)
            out, ended = done.stdout, f"its process ended with the code {done.returncode}"
        except subprocess.TimeoutExpired as error:
            out = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
            ended = f"no end after {IMPORT_SECONDS} seconds"
        lines = [line.split(" ", 3) for line in out.splitlines() if line.startswith(f"{MARK} ")]
        found |= {name: reason for _, _, name, reason in lines if reason}
        left = left[len(lines) :]
        if left:
            found[left.pop(0)] = ended
    return found
