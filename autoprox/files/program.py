"""How the user runs this program again, from the shell in which it runs."""

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "autoprox"


def command_line(*words: str | os.PathLike[str]) -> str:
    """A command that works as it is pasted: by its name, if that is this very program."""
    return shlex.join([*_program(), *(os.fspath(word) for word in words)])


def _program() -> list[str]:
    """The name where the shell finds it, or else the path by which it was called."""
    called = Path(sys.argv[0])
    if (called.parent.name, called.name) == (NAME, "__main__.py"):
        return [sys.executable, "-m", NAME]
    found = shutil.which(NAME)
    if called.name != NAME or not called.is_file() or (found and called.samefile(found)):
        return [NAME]
    here = os.path.relpath(called)
    return [here if not here.startswith("..") and os.sep in here else str(called.absolute())]
