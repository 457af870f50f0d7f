"""Evaluators: what tells the true worth of an architecture to the strategies that ask for it.

One is a benchmark, by name, or a Python function, given as MODULE:FUNCTION. The function takes an
architecture as its `to_json` says it, ``{"space": "pit", "choices": {...}}``, and returns a number;
higher is better.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from autoprox.benchmarks import BENCHMARKS, load_benchmark
from autoprox.benchmarks.hw_gpt import HW_GPT_BENCH, load_surrogate
from autoprox.errors import AutoproxError, failure_of, nearest
from autoprox.files.references import load_function
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.gpt2_hw import GPT2_HW


class EvaluatorError(AutoproxError):
    """An evaluator that doesn't exist, or not for the space."""


@dataclass(frozen=True)
class Evaluator:
    """Gives an architecture a value, or the reason why it has none."""

    name: str
    function: Callable[[Architecture], Any]
    lower_is_better: bool = False

    def __call__(self, architecture: Architecture) -> tuple[float | None, str | None]:
        """The value, or the failure: a user's function may raise and return anything."""
        try:
            value = float(self.function(architecture))
        except Exception as error:
            return None, f"evaluator: {failure_of(error)}"
        if not math.isfinite(value):
            return None, f"evaluator: {value}"
        return value, None


# Benchmarks that answer for any architecture of a space: lower is better.
SURROGATES = MappingProxyType({HW_GPT_BENCH.name: (GPT2_HW, load_surrogate)})


def load_evaluator(
    reference: str, space: SearchSpace, dataset: str, data_dir: Path | None
) -> Evaluator:
    """The evaluator of this name, or the function MODULE:FUNCTION, for architectures of a space."""
    if reference in SURROGATES:
        own, load = SURROGATES[reference]
        if own is not space:
            raise EvaluatorError(
                f"{reference} answers for {own.name}, but the space is {space.name}"
            )
        return Evaluator(reference, load(data_dir), lower_is_better=True)
    if reference in BENCHMARKS or reference.endswith(".json"):
        return _tabulated(reference, space, dataset, data_dir)
    if ":" in reference:
        function = load_function(reference, "an evaluator", EvaluatorError)
        return Evaluator(reference, lambda architecture: function(architecture.to_json()))
    names = dict.fromkeys([*BENCHMARKS, *SURROGATES])
    raise EvaluatorError(
        f"unknown evaluator {reference!r}{nearest(reference, names)}, or give MODULE:FUNCTION"
    )


def _tabulated(
    reference: str, space: SearchSpace, dataset: str, data_dir: Path | None
) -> Evaluator:
    """A table answers for its own architectures: its score on the dataset, or the mean over all."""
    table = load_benchmark(reference, space=space.name, data_dir=data_dir)
    columns = [table.scores[dataset]] if dataset in table.scores else list(table.scores.values())
    means: list[float] = np.mean(columns, axis=0).tolist()
    values = dict(zip(table.architectures, means, strict=True))

    def value(architecture: Architecture) -> float:
        if architecture not in values:
            raise EvaluatorError(f"not one of the {len(values)} architectures of {table.name}")
        return values[architecture]

    return Evaluator(reference, value)
