"""The surrogate of HW-GPT-Bench: a network over the one-hot choices of an architecture."""

import io
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from autoprox.benchmarks.base import BenchmarkError, Row
from autoprox.benchmarks.builtin import DataFile
from autoprox.errors import one_line
from autoprox.searchspaces.bands import sample_bands
from autoprox.searchspaces.base import Architecture
from autoprox.searchspaces.gpt2_hw import GPT2_HW

SEED = 0  # of the sample
WITHIN = 0.02  # of a size, where all are of one
INPUTS = ("embed_dim", "n_layer", "mlp_ratio", "n_head", "bias")  # one-hot, in this order
MAX_LAYERS = 12
WIDTHS = (80, 128, 128, 128, 128, 1)  # from the choices to the perplexity
SHAPES: dict[str, tuple[int, ...]] = {
    f"fc{i}.{name}": shape
    for i, (before, after) in enumerate(pairwise(WIDTHS), start=1)
    for name, shape in (("weight", (after, before)), ("bias", (after,)))
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


def read_sample(file: DataFile, content: bytes, dataset: str, size: int | None = None) -> list[Row]:
    """The rows of the sample, of all sizes or of one; the score is minus the perplexity.

    For higher is better in every benchmark.
    """
    surrogate, rng = Surrogate(content, file.name), random.Random(SEED)
    count = file.architectures
    if size is None:
        archs = [GPT2_HW.sample(rng) for _ in range(count)]
    else:
        band = (size * (1 - WITHIN), size * (1 + WITHIN))
        archs = sample_bands(GPT2_HW, [band], count, classes=1, rng=rng)
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
    try:
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # of a corrupt file anything may come
        rule = f"{file} must be a state that torch.save wrote"
        raise BenchmarkError(f"{rule}, but got: {one_line(error)}") from error
    rule = f"{file} must map {', '.join(SHAPES)} to tensors"
    if not isinstance(state, Mapping):
        raise BenchmarkError(f"{rule}, but is a {type(state).__name__}")
    tensors = {name: p.double() for name, p in state.items() if isinstance(p, Tensor)}
    for name, shape in SHAPES.items():
        if name not in tensors:
            raise BenchmarkError(f"{rule}, but has no {name}")
        if (found := tuple(tensors[name].shape)) != shape:
            raise BenchmarkError(f"{file}: {name} must have shape {shape}, but has {found}")
    return tensors
