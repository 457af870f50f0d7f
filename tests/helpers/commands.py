"""What a command leaves, and the type of what runs it."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Result(NamedTuple):
    """What a command leaves: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Result]
