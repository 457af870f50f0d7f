"""The surrogate of HW-GPT-Bench: a network over the one-hot choices of an architecture."""

import io
import random
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

from autoprox.benchmarks.benchmark import BenchmarkError, BenchmarkRow
from autoprox.benchmarks.benchmark_registry import PinnedBenchmarkFile
from autoprox.errors import one_line
from autoprox.searchspaces.architecture_sampler import sample_size_bands
from autoprox.searchspaces.gpt2 import GPT2_HW
from autoprox.searchspaces.space import Architecture, choice_values

SAMPLE_SEED = 0
SIZE_WITHIN = 0.02  # of a size, if all architectures are of one
SURROGATE_INPUTS = ("embed_dim", "n_layer", "mlp_ratio", "n_head", "bias")  # one-hot, in this order
MAX_LAYERS = 12
SURROGATE_WIDTHS = (80, 128, 128, 128, 128, 1)  # from the choices to the perplexity
TENSOR_SHAPES: dict[str, tuple[int, ...]] = {
    f"fc{i}.{name}": shape
    for i, (before, after) in enumerate(pairwise(SURROGATE_WIDTHS), start=1)
    for name, shape in (("weight", (after, before)), ("bias", (after,)))
}


class PerplexitySurrogate:
    """Predicts the perplexity of any architecture of `gpt2-hw`; lower is better."""

    def __init__(self, content: bytes, file: str) -> None:
        """Read the content of the published file, whose name is used in errors."""
        try:
            state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        except Exception as error:  # of a corrupt file anything may come
            rule = f"{file} must be a state that torch.save wrote"
            raise BenchmarkError(f"{rule}, but got: {one_line(error)}") from error
        rule = f"{file} must map {', '.join(TENSOR_SHAPES)} to tensors"
        if not isinstance(state, Mapping):
            raise BenchmarkError(f"{rule}, but is a {type(state).__name__}")
        tensors = {name: p.double() for name, p in state.items() if isinstance(p, Tensor)}
        for name, shape in TENSOR_SHAPES.items():
            if name not in tensors:
                raise BenchmarkError(f"{rule}, but has no {name}")
            if (actual := tuple(tensors[name].shape)) != shape:
                raise BenchmarkError(f"{file}: {name} must have shape {shape}, but has {actual}")
        self._layers = [(tensors[f"fc{i}.weight"], tensors[f"fc{i}.bias"]) for i in range(1, 6)]

    def __call__(self, arch: Architecture) -> float:
        """The predicted perplexity of this architecture."""
        GPT2_HW.validate(arch)
        one_hot: list[float] = []
        for name in SURROGATE_INPUTS:
            field = GPT2_HW.fields[name]
            [options] = field.options
            values = choice_values(arch[name])
            one_hot += [float(value == option) for value in values for option in options]
            if field.listed:
                one_hot += [0.0] * len(options) * (MAX_LAYERS - len(values))
        x = torch.tensor(one_hot, dtype=torch.float64)
        *hidden, last = self._layers
        for weight, bias in hidden:
            x = (weight @ x + bias).relu()
        weight, bias = last
        return (weight @ x + bias).item()


def sample_scored_by_surrogate(
    file: PinnedBenchmarkFile, content: bytes, dataset: str, size: int | None = None
) -> list[BenchmarkRow]:
    """The rows of the sample, of all sizes or of one; the score is minus the perplexity.

    In every benchmark, higher is better.
    """
    surrogate, rng = PerplexitySurrogate(content, file.name), random.Random(SAMPLE_SEED)
    count = file.architectures
    if size is None:
        archs = [GPT2_HW.sample(rng) for _ in range(count)]
    else:
        band = (size * (1 - SIZE_WITHIN), size * (1 + SIZE_WITHIN))
        archs = sample_size_bands(GPT2_HW, [band], count, classes=1, rng=rng)
    return [
        BenchmarkRow(arch, {dataset: -surrogate(arch)}, f"{file.name}: architecture {i}")
        for i, arch in enumerate(archs)
    ]
