"""Files that were exported, run as their users run them."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType


def loaded(path: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run_alone(folder: Path, code: str, *arguments: str) -> str:
    """What code prints in a folder, where there is no autoprox."""
    without = "import sys; sys.modules['autoprox'] = None; sys.path.insert(0, '')\n"
    command = [sys.executable, "-W", "error", "-c", without + code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout
