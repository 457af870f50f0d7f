"""Evaluators give the true value of architectures to the strategies that ask for it.

An evaluator is a benchmark, by name, or a Python function MODULE:FUNCTION. The function takes an
architecture as `to_json` writes it, ``{"space": "pit", "choices": {...}}``, and returns a number;
higher is better. A function that `evaluates_in_batches` decorates takes an `EvaluationBatch`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from autoprox.benchmarks import BENCHMARKS, load_benchmark
from autoprox.benchmarks.hw_gpt_bench import HW_GPT_BENCH, load_hw_gpt_surrogate
from autoprox.errors import AutoproxError, failure_of, nearest
from autoprox.files.function_import_and_digest import load_function
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.gpt2 import GPT2_HW

A = TypeVar("A")
Answers: TypeAlias = Iterable[tuple[int, Any]]  # index in the batch; number, or exception
BatchFunction = TypeVar("BatchFunction", bound=Callable[..., Answers])
# Benchmarks that answer for any architecture of a space: lower is better.
SURROGATES = MappingProxyType({HW_GPT_BENCH.name: (GPT2_HW, load_hw_gpt_surrogate)})


class EvaluatorError(AutoproxError):
    """An evaluator that doesn't exist or is for another space, or a wrong answer."""


@dataclass(frozen=True)
class EvaluationBatch(Generic[A]):
    """Architectures that are evaluated together, and the conditions of the search.

    `budget` is the most evaluations that the search will ask for, this batch included. A resumed
    search asks only for what has no answer yet, so a value must not depend on the rest of a batch.
    """

    architectures: Sequence[A]
    seed: int
    device: str
    budget: int


Ask: TypeAlias = Callable[[EvaluationBatch[Architecture]], Answers]


def evaluates_in_batches(function: BatchFunction) -> BatchFunction:
    """Mark a function that takes an `EvaluationBatch`.

    It yields an index and a number for each architecture, in any order; an exception instead of
    the number is the reason why there is none.
    """
    function.in_batches = True  # type: ignore[attr-defined]
    return function


def evaluate_one_by_one(function: Callable[[Architecture], Any]) -> Ask:
    """Return a function of a batch that calls a function of one architecture."""

    def ask(batch: EvaluationBatch[Architecture]) -> Iterator[tuple[int, Any]]:
        for index, architecture in enumerate(batch.architectures):
            try:
                value = function(architecture)
            except Exception as error:  # a user's function may raise anything
                value = error
            yield index, value

    return ask


@dataclass(frozen=True)
class ArchitectureEvaluator:
    """Gives each architecture of a batch a value, or the reason why it has none."""

    name: str
    ask: Ask
    lower_is_better: bool = False
    seed: int = 0
    device: str = "cpu"

    def evaluate(
        self, architectures: Sequence[Architecture], budget: int
    ) -> Iterator[tuple[int, float | None, str | None]]:
        """Yield the index, value and failure of each architecture, as the answers arrive.

        A user's function may raise and return anything: what has no answer then has failed.
        """
        batch = EvaluationBatch(tuple(architectures), self.seed, self.device, budget)
        waiting = dict.fromkeys(range(len(architectures)))
        failure = "no answer"
        try:
            for index, answer in self.ask(batch):
                if index not in waiting:
                    rule = f"an index must be one of {', '.join(map(str, waiting)) or 'none'}"
                    raise EvaluatorError(f"{rule}, but the answer is for {index!r}")
                del waiting[index]
                try:
                    if isinstance(answer, Exception):
                        raise answer
                    value = float(answer)
                    reason = None if math.isfinite(value) else f"evaluator: {value}"
                except Exception as error:
                    reason = f"evaluator: {failure_of(error)}"
                yield int(index), None if reason else value, reason
        except Exception as error:
            failure = failure_of(error)
        for index in waiting:
            yield index, None, f"evaluator: {failure}"


def load_evaluator(
    reference: str,
    space: SearchSpace,
    dataset: str,
    data_dir: Path | None,
    seed: int = 0,
    device: str = "cpu",
) -> ArchitectureEvaluator:
    """Return the benchmark of this name, or the function MODULE:FUNCTION, as an evaluator."""
    if reference in SURROGATES:
        own, load = SURROGATES[reference]
        if own is not space:
            raise EvaluatorError(
                f"{reference} answers for {own.name}, but the space is {space.name}"
            )
        return ArchitectureEvaluator(
            reference, evaluate_one_by_one(load(data_dir)), lower_is_better=True
        )
    if reference in BENCHMARKS or reference.endswith(".json"):
        return ArchitectureEvaluator(reference, _ask_table(reference, space, dataset, data_dir))
    if ":" not in reference:
        names = dict.fromkeys([*BENCHMARKS, *SURROGATES])
        raise EvaluatorError(
            f"unknown evaluator {reference!r}{nearest(reference, names)}, or give MODULE:FUNCTION"
        )
    function = load_function(reference, "an evaluator", EvaluatorError)
    ask = evaluate_one_by_one(lambda architecture: function(architecture.to_json()))
    if getattr(function, "in_batches", False):

        def ask(batch: EvaluationBatch[Architecture]) -> Answers:
            written = [architecture.to_json() for architecture in batch.architectures]
            found: Answers = function(replace(batch, architectures=written))  # type: ignore[arg-type]
            return found

    return ArchitectureEvaluator(reference, ask, seed=seed, device=device)


def _ask_table(reference: str, space: SearchSpace, dataset: str, data_dir: Path | None) -> Ask:
    """Answer with a table's score on the dataset, or the mean over all of its datasets."""
    table = load_benchmark(reference, space=space.name, data_dir=data_dir)
    columns = [table.scores[dataset]] if dataset in table.scores else list(table.scores.values())
    means: list[float] = np.mean(columns, axis=0).tolist()
    values = dict(zip(table.architectures, means, strict=True))

    def value(architecture: Architecture) -> float:
        if architecture not in values:
            raise EvaluatorError(f"not one of the {len(values)} architectures of {table.name}")
        return values[architecture]

    return evaluate_one_by_one(value)
