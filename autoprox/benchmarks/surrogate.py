"""The surrogate of HW-GPT-Bench: a network over the one-hot choices of an architecture."""

import io
import random
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from autoprox.benchmarks.base import BenchmarkError, Row
from autoprox.benchmarks.builtin import DataFile
from autoprox.searchspaces.base import Architecture
from autoprox.searchspaces.gpt2_hw import GPT2_HW

SEED = 0  # of the sample
INPUTS = ("embed_dim", "n_layer", "mlp_ratio", "n_head", "bias")  # one-hot, in this order
MAX_LAYERS = 12
SHAPES = {
    "fc1.weight": (128, 80),
    "fc1.bias": (128,),
    "fc2.weight": (128, 128),
    "fc2.bias": (128,),
    "fc3.weight": (128, 128),
    "fc3.bias": (128,),
    "fc4.weight": (128, 128),
    "fc4.bias": (128,),
    "fc5.weight": (1, 128),
    "fc5.bias": (1,),
}


class Surrogate:
    """Predicts the perplexity of any architecture of `gpt2-hw`; lower is better."""

    def __init__(self, content: bytes, file: str) -> None:
        """Take the content of the published file, which is named so in errors."""
        tensors = _tensors(content, file)
        self._layers = [(tensors[f"fc{i}.weight"], tensors[f"fc{i}.bias"]) for i in range(1, 6)]

    def __call__(self, arch: Architecture) -> float:
        """The perplexity that is predicted for this architecture."""
        GPT2_HW.validate(arch)
        x = torch.tensor(list(_one_hot(arch)), dtype=torch.float64)
        *hidden, last = self._layers
        for weight, bias in hidden:
            x = (weight @ x + bias).relu()
        weight, bias = last
        return (weight @ x + bias).item()


def read_sample(file: DataFile, content: bytes, dataset: str) -> list[Row]:
    """The rows of the sample; since higher is better in every benchmark, minus the perplexity."""
    surrogate, rng = Surrogate(content, file.name), random.Random(SEED)
    archs = [GPT2_HW.sample(rng) for _ in range(file.architectures)]
    return [
        Row(arch, {dataset: -surrogate(arch)}, f"{file.name}: architecture {i}")
        for i, arch in enumerate(archs)
    ]


def _one_hot(arch: Architecture) -> Iterator[float]:
    for name in INPUTS:
        field = GPT2_HW.fields[name]
        [options] = field.options
        values = arch[name] if field.listed else [arch[name]]
        for value in values:
            yield from (float(value == option) for option in options)
        if field.listed:
            yield from [0.0] * len(options) * (MAX_LAYERS - len(values))


def _tensors(content: bytes, file: str) -> dict[str, Tensor]:
    """The surrogate's parameters in double precision, after their shapes have been checked."""
    state = _load(content, file)
    names = ", ".join(SHAPES)
    if not isinstance(state, Mapping):
        kind = type(state).__name__
        raise BenchmarkError(f"{file} must map {names} to tensors, but is a {kind}")
    tensors = {name: p.double() for name, p in state.items() if isinstance(p, Tensor)}
    for name, shape in SHAPES.items():
        if name not in tensors:
            raise BenchmarkError(f"{file} must map {names} to tensors, but has no {name}")
        if (found := tuple(tensors[name].shape)) != shape:
            raise BenchmarkError(f"{file}: {name} must have shape {shape}, but has {found}")
    return tensors


def _load(content: bytes, file: str) -> Any:
    try:
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # of a corrupt file anything may come
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise BenchmarkError(
            f"{file} must be a state that torch.save wrote, but got: {reason}"
        ) from error
