"""Functions of the user, named as MODULE:FUNCTION."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from autoprox.errors import AutoproxError, one_line


def load_function(reference: str, noun: str, error: type[AutoproxError]) -> Callable[..., Any]:
    """The function of a module, which may be in the current folder; `error` if there is none.

    The noun says what it should be, with an article, for the message.
    """
    rule = f"{noun} must be a function given as MODULE:FUNCTION"
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as reason:  # it isn't our code
        raise error(f"{rule}, but {reference!r} gives {one_line(reason)}") from reason
    if not callable(function):
        raise error(f"{rule}, but {reference!r} is {function!r}")
    return function
