"""Tiny networks for tests of the collector, the store and the engine, and a way to run commands."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from autoprox import cli
from autoprox.collector import Setting
from autoprox.inputs import Batch, load_batch
from autoprox.searchspaces import Architecture, SearchSpace, get_space

torch.set_num_threads(1)

SPACE = get_space("autoformer-nano")


def tiny(width: int, *blocks: tuple[int, float]) -> Architecture:
    """A network of this width with (heads, MLP ratio) of each block."""
    heads, ratios = zip(*blocks, strict=True)
    choices = {"hidden_dim": width, "depth": len(blocks), "num_heads": heads, "mlp_ratio": ratios}
    return Architecture(SPACE.name, choices)


def noise(classes: int, size: int = 2, seed: int = 0) -> Batch:
    return load_batch("noise", SPACE.input_shape, size, seed, classes=classes)


@pytest.fixture(scope="session")
def space() -> SearchSpace:
    return SPACE


@pytest.fixture(scope="session")
def architectures() -> list[Architecture]:
    """Five networks of three depths, with widths that don't fill vector registers."""
    return [
        tiny(8, (1, 2.0)),
        tiny(7, (2, 1.0), (1, 3.0)),
        tiny(12, (1, 1.0), (1, 2.0)),
        tiny(9, (1, 2.0), (2, 1.0), (1, 1.0)),
        tiny(16, (2, 2.0)),
    ]


@pytest.fixture(scope="session")
def batches() -> dict[str, Batch]:
    """Two datasets of the same noise, and one of other images."""
    return {"few": noise(4), "many": noise(10), "other": noise(4, seed=1)}


@pytest.fixture
def setting(space: SearchSpace, batches: dict[str, Batch]) -> Callable[..., Setting]:
    """What tiny networks are measured with; arguments replace the defaults."""
    return lambda **changed: Setting(**{"space": space, "batches": batches, **changed})


class Result(NamedTuple):
    """What a command leaves: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    """Calls the program with these arguments."""

    def command(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as exit_:
            cli.main(arguments)
        out, err = capsys.readouterr()
        return Result(exit_.value.code or 0, out, err)  # type: ignore[arg-type]

    return command
