"""Runs: the folder that keeps a run, the base of all summaries, and proxy files.

May import: files, the language and its formats.
Gives: `folder.Run`, which may write; `loaded_runs.LoadedRun` reads. `autoprox.runs()` lists the
runs of a folder, as the command does.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _RunsPackage(ModuleType):
    """This package, which has the name of a command, and so can be called like a function."""

    def __call__(self, folder: str = "runs") -> Any:
        # By its name, because what reads runs is above this package.
        return import_module("autoprox.api").list_runs(folder)


sys.modules[__name__].__class__ = _RunsPackage
