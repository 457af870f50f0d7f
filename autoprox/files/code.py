"""The files in which code is written: what is kept of its results depends on them."""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


@cache
def code_digest(*defined: Callable[..., Any]) -> str:
    """Of the files of functions, and of classes with their bases; what is compiled has none."""
    bases = [base for own in defined if inspect.isclass(own) for base in inspect.getmro(own)]
    texts = {text for own in (*defined, *bases) if (text := _text(own))}
    return hashlib.sha256(b"".join(sorted(texts))).hexdigest()


def _text(own: Any) -> bytes | None:
    try:
        file = inspect.getsourcefile(own)
        return Path(file).read_bytes() if file else None
    except (OSError, TypeError):  # of what is built in, or packed
        return None
