"""The record of a proxy that is a function, and the measurement of several at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoprox.errors import nearest
from autoprox.inputs.batch import Batch
from autoprox.registry import View
from autoprox.searchspaces import TransformerNetwork
from autoprox.statistics import collector
from autoprox.zoo.expression_proxies import PROXIES, PublishedProxy
from autoprox.zoo.functions.shared_network_passes import (
    SHARED_PASSES,
    FunctionProxyError,
    SharedNetworkPasses,
)

MeasureFunction = Callable[[SharedNetworkPasses], float]


@dataclass(frozen=True)
class FunctionProxy(PublishedProxy):
    """A published proxy as a function of one network's passes.

    `needs` are the shared passes that it reads, and those that they are made of; without any, it
    runs passes of its own. `trunk` means that neither the head nor the labels matter: for datasets
    of the same inputs it is the same.
    """

    name: str
    function: MeasureFunction
    equation: str
    needs: frozenset[str]
    trunk: bool


FUNCTION_PROXIES: Mapping[str, FunctionProxy] = View(
    PROXIES, lambda: {name: p for name, p in PROXIES.items() if isinstance(p, FunctionProxy)}
)


def function_proxy(
    name: str, citation: str, equation: str, needs: Sequence[str] = (), trunk: bool = False
) -> Callable[[MeasureFunction], FunctionProxy]:
    """Make a record of the decorated function, to be registered by an entry point or as below."""
    if unknown := set(needs) - set(SHARED_PASSES):
        choices = ", ".join(SHARED_PASSES)
        raise FunctionProxyError(
            f"{name} must need passes of {choices}, but got {', '.join(unknown)}"
        )
    return lambda function: FunctionProxy(
        citation, name, function, equation, frozenset(needs), trunk
    )


def register_function(
    name: str, *details: Any, **options: Any
) -> Callable[[MeasureFunction], MeasureFunction]:
    """Register the `function_proxy` of the decorated function, which stays a function."""

    def enter(function: MeasureFunction) -> MeasureFunction:
        PROXIES.register(name, function_proxy(name, *details, **options)(function))
        return function

    return enter


def measure_function_proxies(
    network: TransformerNetwork,
    batch: Batch,
    names: Sequence[str],
    seed: int = 0,
    shared: collector.SharedStatisticPasses | None = None,
) -> dict[str, float]:
    """Compute the measures of these names, running the passes that they share once.

    Passes that were run for the network's statistics may be `shared` too. The measures are nan for
    a network whose outputs aren't finite, which some of them wouldn't notice.
    """
    for name in names:
        if name not in FUNCTION_PROXIES:
            raise FunctionProxyError(f"unknown measure {name!r}{nearest(name, FUNCTION_PROXIES)}")
    passes = SharedNetworkPasses(network, batch, seed, shared)
    values = dict.fromkeys(names, math.nan)
    # Those with the most shared passes first, so that none is kept while others run their own.
    todo = sorted(
        (FUNCTION_PROXIES[name] for name in values), key=lambda m: len(m.needs), reverse=True
    )
    while todo:
        measure = todo.pop(0)
        if not measure.needs or passes.finite:
            values[measure.name] = measure.function(passes)
        passes.release(frozenset().union(*(other.needs for other in todo)))
    return values
