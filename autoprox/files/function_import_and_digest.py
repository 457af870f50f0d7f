"""Python code: functions that users name as MODULE:FUNCTION, and digests of source files."""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from autoprox.errors import AutoproxError, one_line


def load_function(reference: str, noun: str, error: type[AutoproxError]) -> Callable[..., Any]:
    """Import a function from a module, also one in the current folder; raise `error` on failure.

    The noun says what the function should be, with an article, for the message.
    """
    rule = f"{noun} must be a function given as MODULE:FUNCTION"
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as reason:  # of any kind: the module is the user's
        raise error(f"{rule}, but {reference!r} gives {one_line(reason)}") from reason
    if not callable(function):
        raise error(f"{rule}, but {reference!r} is {function!r}")
    return function


@cache
def code_digest(*defined: Callable[..., Any]) -> str:
    """Return a digest of the source files of functions, and of classes with their bases."""
    owners: list[Any] = list(defined)
    for own in defined:
        owners += inspect.getmro(own) if inspect.isclass(own) else ()
    texts = set()
    for own in owners:
        try:
            if file := inspect.getsourcefile(own):
                texts.add(Path(file).read_bytes())
        except (OSError, TypeError):  # built in, compiled or packed: it has no source file
            continue
    return hashlib.sha256(b"".join(sorted(texts))).hexdigest()
