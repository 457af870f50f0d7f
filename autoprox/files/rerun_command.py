"""The command by which the user runs this program again, in the shell in which it runs."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def rerun_command_line(*words: str | os.PathLike[str]) -> str:
    """Return a command that works when pasted, by its name if the shell finds this program so."""
    called, found = Path(sys.argv[0]), shutil.which("autoprox")
    if (called.parent.name, called.name) == ("autoprox", "__main__.py"):
        program = [sys.executable, "-m", "autoprox"]
    elif called.name != "autoprox" or not called.is_file() or (found and called.samefile(found)):
        program = ["autoprox"]
    else:
        path = os.path.relpath(called)
        below = not path.startswith("..") and os.sep in path
        program = [path if below else str(called.absolute())]
    return shlex.join([*program, *(os.fspath(word) for word in words)])
