"""Which of the optional packages can be imported, each tried in another process."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

USES = {  # what each is for
    "torchvision": "timm",
    "timm": "models of timm",
    "transformers": "models of transformers",
    "matplotlib": "plots",
    "distributed": "the backend dask",
    "pandas": "data frames",
}
SECONDS = 120  # until the imports are given up
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


def failed_imports(names: Sequence[str] = tuple(USES)) -> dict[str, str]:
    """Return why each of these packages that is installed can't be imported.

    One that ends the process is told so, and the others after it are tried in another.
    """
    left = [name for name in names if find_spec(name) is not None]
    found: dict[str, str] = {}
    while left:
        answers, ended = _tried(left)
        found |= {name: reason for name, reason in answers.items() if reason}
        left = left[len(answers) :]
        if left:
            found[left.pop(0)] = ended
    return found


def _tried(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the reasons of the imports that were answered, and how the process ended."""
    command = [sys.executable, "-c", PROGRAM, MARK, *names]
    ended = f"no end after {SECONDS} seconds"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        out, ended = done.stdout, f"its process ended with the code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        out = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    lines = (line.split(" ", 3) for line in out.splitlines() if line.startswith(f"{MARK} "))
    return {name: reason for _, _, name, reason in lines}, ended
