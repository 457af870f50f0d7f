"""The registry of operations, open to packages that are installed beside autoprox."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import sympy as sp
from torch import Tensor

from autoprox.registry import Registry, View

from .base import Kind, Primitive, PrimitiveError
from .difference import prove_different
from .notation import Binding, Operation
from .proof import prove


def _prove(name: str, primitive: Primitive) -> None:
    prove(name, primitive)
    prove_different(primitive, OPERATIONS.registered)


OPERATIONS: Registry[Primitive] = Registry("operations", "operation", PrimitiveError, _prove)
PRIMITIVES: Mapping[str, Primitive] = View(
    OPERATIONS, lambda: {name: p for name, p in OPERATIONS.items() if p.kind != "combinator"}
)
COMBINATORS: Mapping[str, Primitive] = View(
    OPERATIONS,
    lambda: {name: p for name, p in OPERATIONS.items() if "network" in p.levels},
)

Function = TypeVar("Function", bound=Callable[..., Tensor])


def operation(
    kind: Kind,
    *,
    sympy: Callable[..., sp.Expr] | None = None,
    latex: str | None = None,
    text: str | None = None,
    binding: Binding = Binding.ATOM,
    **fields: Any,
) -> Callable[[Callable[..., Tensor]], Primitive]:
    """Make a record of the decorated function, named like it less a final underscore.

    Without `sympy`, its sympy form is a function of that name, pretty-printed by the template
    `text`; without templates it is written as name(x), the axis as a subscript. `fields` are
    further ones of the record. What an installed package makes so is registered by its entry point.
    """

    def make(function: Callable[..., Tensor]) -> Primitive:
        name = function.__name__.rstrip("_")
        made = Primitive(name, kind, function, sympy or sp.Function(name), "", binding, **fields)
        template = latex or _call(made)
        form = sympy or Operation.named(
            name,
            text or f"{name}<axis>(<x>)",
            template,
            arity=made.arity,
            reduces=made.reduces,
            nonnegative=made.nonnegative,
        )
        return replace(made, latex=template, sympy=form)

    return make


def register(kind: Kind, **details: Any) -> Callable[[Function], Function]:
    """Register the `operation` of the decorated function, which stays a function."""

    def enter(function: Function) -> Function:
        primitive = operation(kind, **details)(function)
        OPERATIONS.register(primitive.name, primitive)
        return function

    return enter


def _call(primitive: Primitive) -> str:
    # matplotlib's mathtext has no underscore within a name.
    name = primitive.name.replace("_", "")
    subscript = "_{<axis>}" if primitive.along_axis else ""
    arguments = "<x>, <y>" if primitive.arity == 2 else "<x>"
    return rf"\operatorname{{{name}}}{subscript}\left({arguments}\right)"
