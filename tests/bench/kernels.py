"""Ways to compute an elementwise formula and its sum: `python tests/bench/kernels.py`.

It shows why the engine computes as it does. Each row is the CPU time of one thread, the least of
several, over that of a copy of its inputs. numexpr and numba are measured where they are installed;
torch.compile isn't, for it needs a compiler.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autoprox.primitives import PRIMITIVES, apply_primitive

ELEMENTS, CHUNK, EPSILON = 2**22, 2**20, np.float32(1e-12)
FORMULAS = {  # the operations, first to last, the first of them on two inputs or on one
    "sum(abs(mul(x, y)))": ("mul", "abs"),
    "sum(sigmoid(mul(x, y)))": ("mul", "sigmoid"),
    "sum(square(sub(x, y)))": ("sub", "square"),
    "sum(tanh(square(x)))": ("square", "tanh"),
    "sum(log(sqrt(x)))": ("sqrt", "log"),
}
NUMEXPR = {
    "sum(abs(mul(x, y)))": "sum(abs(x * y))",
    "sum(sigmoid(mul(x, y)))": "sum(1 / (1 + exp(-(x * y))))",
    "sum(square(sub(x, y)))": "sum((x - y) ** 2)",
    "sum(tanh(square(x)))": "sum(tanh(x * x))",
    "sum(log(sqrt(x)))": "sum(log(sqrt(abs(x)) + e))",
}


def chunks(*arrays: Tensor) -> Iterator[tuple[Tensor, ...]]:
    yield from zip(*(array.split(CHUNK) for array in arrays), strict=True)


def by_operations(names: tuple[str, ...], x: Tensor, y: Tensor) -> float:
    """As the engine does: an operation after the other, on chunks, in place."""
    total = 0.0
    for pair in chunks(x, y):
        first = PRIMITIVES[names[0]]
        value = apply_primitive(first, pair[: first.arity], "matrix")
        for name in names[1:]:
            operation = PRIMITIVES[name]
            operation = operation.on_nonnegative if name == "log" else operation
            value = apply_primitive(operation, [value], "matrix", value)
        total += float(value.sum())
    return total


def by_numexpr(text: str, x: Tensor, y: Tensor) -> float:
    import numexpr

    numexpr.set_num_threads(1)
    return float(numexpr.evaluate(text, {"x": x.numpy(), "y": y.numpy(), "e": EPSILON}))


def numba_kernels() -> dict[str, Callable[..., float]]:
    """One fused loop a formula; each takes its compilation again for each new formula."""
    import numba

    def kernel(body: Callable[..., Any]) -> Callable[..., float]:
        inner = numba.njit(body, fastmath=True, inline="always")

        @numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
        def loop(x: Any, y: Any) -> float:
            total: Any = np.float32(0)
            for i in range(x.size):
                total += inner(x[i], y[i])
            return total

        return loop  # type: ignore[no-any-return]

    one = np.float32(1)
    return {
        "sum(abs(mul(x, y)))": kernel(lambda x, y: abs(x * y)),
        "sum(sigmoid(mul(x, y)))": kernel(lambda x, y: one / (one + np.exp(-(x * y)))),
        "sum(square(sub(x, y)))": kernel(lambda x, y: (x - y) * (x - y)),
        "sum(tanh(square(x)))": kernel(lambda x, y: np.tanh(x * x)),
        "sum(log(sqrt(x)))": kernel(lambda x, y: np.log(np.sqrt(abs(x)) + EPSILON)),
    }


def cpu_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least of several, after one to warm up."""
    call()
    least = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        call()
        least = min(least, time.thread_time() - start)
    return least


def main() -> None:
    torch.set_num_threads(1)
    torch.empty(2**24, dtype=torch.uint8)  # as `CachedMatrices` does: see there
    generator = torch.Generator().manual_seed(0)
    x, y = (0.02 * torch.randn(ELEMENTS, generator=generator) for _ in range(2))
    target = torch.empty_like(x)
    copy = cpu_seconds(lambda: target.copy_(x))
    installed = {n for n in ("numba", "numexpr") if importlib.util.find_spec(n)}
    fused = numba_kernels() if "numba" in installed else {}
    rows = []
    for formula, names in FORMULAS.items():
        inputs = 2 if "y" in formula else 1
        ways = {"operations": lambda names=names: by_operations(names, x, y)}
        if "numexpr" in installed:
            ways["numexpr"] = lambda f=formula: by_numexpr(NUMEXPR[f], x, y)
        row: dict[str, Any] = {"formula": formula}
        if formula in fused:
            start = time.thread_time()
            fused[formula](x.numpy()[:1], y.numpy()[:1])
            row["numba_compilation_seconds"] = round(time.thread_time() - start, 2)
            ways["numba"] = lambda f=formula: fused[f](x.numpy(), y.numpy())
        row |= {name: round(cpu_seconds(way) / copy / inputs, 2) for name, way in ways.items()}
        rows.append(row)
    print(json.dumps({"copy_gb_per_second": 4e-9 * ELEMENTS / copy, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
