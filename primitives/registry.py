"""The registry of operations, open to packages that are installed beside autoprox."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import sympy as sp
from torch import Tensor

from autoprox.registry import Registry, View

from .base import Kind, Primitive, PrimitiveError
from .notation import Binding, Operation
from .proof import prove

OPERATIONS: Registry[Primitive] = Registry("operations", "operation", PrimitiveError, prove)
PRIMITIVES: Mapping[str, Primitive] = View(
    OPERATIONS, lambda: {name: p for name, p in OPERATIONS.items() if p.kind != "combinator"}
)
COMBINATORS: Mapping[str, Primitive] = View(
    OPERATIONS,
    lambda: {name: p for name, p in OPERATIONS.items() if p.kind in ("binary", "combinator")},
)

Function = TypeVar("Function", bound=Callable[..., Tensor])


def operation(
    kind: Kind,
    *,
    sympy: Callable[..., sp.Expr] | None = None,
    latex: str | None = None,
    text: str | None = None,
    binding: Binding = Binding.ATOM,
    of_magnitude: Callable[..., Tensor] | None = None,
    **flags: bool,
) -> Callable[[Callable[..., Tensor]], Primitive]:
    """Make a record of the decorated function, named like it less a final underscore.

    Without `sympy`, its sympy form is a function of that name, pretty-printed by the template
    `text`; without templates it is written as name(x), the axis as a subscript. What an installed
    package makes so is registered by its entry point.
    """

    def make(function: Callable[..., Tensor]) -> Primitive:
        name = function.__name__.rstrip("_")
        template = latex or _call(name, along_axis=kind in ("normalise", "reduce"))
        form = sympy or Operation.named(
            name,
            text or f"{name}<axis>(<x>)",
            template,
            reduces=kind == "reduce",
            nonnegative=flags.get("nonnegative", False),
        )
        return Primitive(
            name, kind, function, form, template, binding, of_magnitude=of_magnitude, **flags
        )

    return make


def register(kind: Kind, **details: Any) -> Callable[[Function], Function]:
    """Register the `operation` of the decorated function, which stays a function."""

    def enter(function: Function) -> Function:
        primitive = operation(kind, **details)(function)
        OPERATIONS.register(primitive.name, primitive)
        return function

    return enter


def _call(name: str, along_axis: bool) -> str:
    # matplotlib's mathtext has no underscore within a name.
    subscript = "_{<axis>}" if along_axis else ""
    return rf"\operatorname{{{name.replace('_', '')}}}{subscript}\left(<x>\right)"
