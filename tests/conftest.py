"""Fixtures: tiny networks for collector, store and engine, and a way to run commands."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from helpers.commands import Command, Result
from helpers.measuring import Conditions
from helpers.networks import SPACE, noise, tiny

from autoprox import cli
from autoprox.inputs.batch import Batch
from autoprox.models.model_loading import declare_torchvision_operators
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.untrained_networks import SpaceNetwork

declare_torchvision_operators()  # before a test imports transformers


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
def setting(space: SearchSpace, batches: dict[str, Batch]) -> Callable[..., Conditions]:
    """What tiny networks are measured with; arguments replace the defaults."""
    return lambda **changed: Conditions(**{"space": space, "batches": batches, **changed})


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Architecture, dict[str, set[str]]]]:
    """What was asked of the networks, in a list that grows."""
    calls: list[tuple[Architecture, dict[str, set[str]]]] = []
    measure = MeasurementSetting.measure

    def counted(
        self: MeasurementSetting, network: SpaceNetwork, needs: Mapping[str, object]
    ) -> object:
        wanted = {dataset: set(map(str, own)) for dataset, own in needs.items()}
        calls.append((network.architecture, wanted))
        return measure(self, network, needs)

    monkeypatch.setattr(MeasurementSetting, "measure", counted)
    return calls


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    """Calls the program with these arguments."""

    def command(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as exit_:
            cli.main(arguments)
        out, err = capsys.readouterr()
        return Result(exit_.value.code or 0, out, err)  # type: ignore[arg-type]

    return command


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], ModuleType]:
    """Imports a module of this name and text anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # or that of another text would be read

    def write(name: str, text: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return write
