"""What a command leaves, and the type of what runs it."""

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from autoprox import cli


class Result(NamedTuple):
    """What a command leaves: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Result]


def called(*arguments: str) -> Result:
    """Call the program where no test's fixture catches what it prints."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(arguments)
        except SystemExit as exit_:
            code = exit_.code
    out.seek(0)
    err.seek(0)
    return Result(code or 0, out.read(), err.read())
