"""Which of the packages that something here needs can be imported, each tried in another process."""

import subprocess
import sys
from importlib.util import find_spec

USES = {  # what each is for
    "timm": "models of timm",
    "torchvision": "timm",
    "transformers": "models of transformers",
    "matplotlib": "plots",
    "distributed": "the backend dask",
    "pandas": "data frames",
}
SECONDS = 120  # until an import is given up
MARK = "autoprox could not import: "
PROGRAM = """
import sys
from autoprox.errors import one_line
from autoprox.models.loading import declare_operators
if sys.argv[1] != "torchvision":
    declare_operators()
try:
    __import__(sys.argv[1])
except BaseException as error:
    print(sys.argv[2] + one_line(error))
"""


def failed_imports() -> dict[str, str]:
    """Return why each package that is installed can't be imported; none of those that can.

    torchvision is tried by itself; the others as they are imported here, where a torchvision of
    another torch does no harm.
    """
    installed = [name for name in USES if _is_installed(name)]
    processes = {name: _started(name) for name in installed}
    reasons = {name: _reason(process) for name, process in processes.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module without a specification, as a test may leave
        return True


def _started(name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name, MARK],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _reason(process: "subprocess.Popen[str]") -> str:
    """Return why the import failed; nothing if it didn't."""
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"no end after {SECONDS} seconds"
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if lines:
        return lines[0].removeprefix(MARK)
    return f"its process ended with the code {process.returncode}" if process.returncode else ""
