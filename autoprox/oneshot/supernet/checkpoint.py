"""Supernets in a file: safetensors of weights and moments, with whose they are and how far."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from autoprox.files.atomic_writes import atomic_file
from autoprox.oneshot.supernet.slices import Supernet, SupernetError
from autoprox.searchspaces import SearchSpace

FORMAT = 1
MOST_CLASSES = 10**6
FILE = "supernet.safetensors"


@dataclass(frozen=True)
class Header:
    """Whose weights a file has, and after how many epochs and steps."""

    space: str
    classes: int
    epoch: int
    steps: int
    format: int = FORMAT


def write_checkpoint(path: Path, state: Mapping[str, Tensor], header: Header) -> None:
    """Write a state as a whole."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    metadata = {name: str(value) for name, value in asdict(header).items()}
    with atomic_file(path) as file:
        file.write(save(tensors, metadata))


def read_checkpoint(path: Path, space: SearchSpace) -> tuple[dict[str, Tensor], Header]:
    """A state, which must be that of a supernet of this space."""
    try:
        with safe_open(path, framework="pt") as file:
            header = _header(path, file.metadata() or {}, space)
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise SupernetError(f"{path} must be a supernet's checkpoint, but {error}") from error
    _check_shapes(path, state, space, header.classes)
    return state, header


def read_supernet(path: Path, space: SearchSpace) -> Supernet:
    """The supernet of a file."""
    state, header = read_checkpoint(path, space)
    supernet = Supernet(space, header.classes)
    with torch.no_grad():
        for name, parameter in supernet.parameters.items():
            parameter.copy_(state[f"weight.{name}"])
    return supernet


def _header(path: Path, metadata: Mapping[str, str], space: SearchSpace) -> Header:
    wanted: dict[str, Any] = {"format": FORMAT, "space": space.name}
    for name, value in wanted.items():
        if metadata.get(name) != str(value):
            got = metadata.get(name, "none")
            raise SupernetError(f"{path} must be a checkpoint of {name} {value}, but is of {got}")
    try:
        numbers = {name: int(metadata[name]) for name in ("classes", "epoch", "steps")}
        if min(numbers.values()) < 0 or not 1 <= numbers["classes"] <= MOST_CLASSES:
            raise ValueError(numbers)
    except (KeyError, ValueError) as error:
        rule = f"a checkpoint must say classes, 1 to {MOST_CLASSES}, epoch and steps"
        raise SupernetError(f"{rule}, but {path} says {dict(metadata)}") from error
    return Header(space.name, **numbers)


def _check_shapes(
    path: Path, state: Mapping[str, Tensor], space: SearchSpace, classes: int
) -> None:
    """The options of a space may have changed since."""
    with torch.device("meta"):
        network = space.network(space.largest(), classes)
    for name, parameter in network.named_parameters():
        found = state.get(f"weight.{name}")
        if found is None or found.shape != parameter.shape:
            got = "none" if found is None else list(found.shape)
            rule = f"must have {name} of {list(parameter.shape)}, as {space.name} has it now"
            raise SupernetError(f"{path} {rule}, but has {got}")
