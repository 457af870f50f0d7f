"""The registry of operations, and the decorators that make and register one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import sympy as sp
from torch import Tensor

from autoprox.primitives.notation import BindingStrength, SympyOperation
from autoprox.primitives.primitive import OperationKind, Primitive, PrimitiveError
from autoprox.primitives.validation import require_unique_operation, validate_operation
from autoprox.registry import Registry, View


def _prove(name: str, primitive: Primitive) -> None:
    validate_operation(name, primitive)
    require_unique_operation(primitive, OPERATIONS.registered)


OPERATIONS: Registry[Primitive] = Registry("operations", "operation", PrimitiveError, _prove)
PRIMITIVES: Mapping[str, Primitive] = View(
    OPERATIONS, lambda: {name: p for name, p in OPERATIONS.items() if p.kind != "combinator"}
)
COMBINATORS: Mapping[str, Primitive] = View(
    OPERATIONS, lambda: {name: p for name, p in OPERATIONS.items() if "network" in p.levels}
)

TensorFunction = TypeVar("TensorFunction", bound=Callable[..., Tensor])


def operation(
    kind: OperationKind,
    *,
    sympy: Callable[..., sp.Expr] | None = None,
    latex: str | None = None,
    text: str | None = None,
    binding: BindingStrength = BindingStrength.ATOM,
    **fields: Any,
) -> Callable[[Callable[..., Tensor]], Primitive]:
    """Make a record of the decorated function, named like it less a final underscore.

    Without `sympy`, its sympy form is a function of that name, pretty-printed by the template
    `text`; without templates it is written as name(x), the axis as a subscript. `fields` are
    further fields of the record. An installed package registers its records by entry points.
    """

    def make(function: Callable[..., Tensor]) -> Primitive:
        name = function.__name__.rstrip("_")
        made = Primitive(name, kind, function, sympy or sp.Function(name), "", binding, **fields)
        # matplotlib's mathtext has no underscore within a name.
        call = rf"\operatorname{{{name.replace('_', '')}}}"
        call += "_{<axis>}" if made.along_axis else ""
        call += rf"\left({'<x>, <y>' if made.arity == 2 else '<x>'}\right)"
        attributes = {
            "text": text or f"{name}<axis>(<x>)",
            "latex": latex or call,
            **{field: getattr(made, field) for field in ("arity", "reduces", "nonnegative")},
            **({"is_nonnegative": True} if made.nonnegative else {}),
        }
        form = sympy or type(name, (SympyOperation,), attributes)
        return replace(made, latex=latex or call, sympy=form)

    return make


def register_operation(
    kind: OperationKind, **details: Any
) -> Callable[[TensorFunction], TensorFunction]:
    """Register the `operation` of the decorated function, which stays a function."""

    def enter(function: TensorFunction) -> TensorFunction:
        primitive = operation(kind, **details)(function)
        OPERATIONS.register(primitive.name, primitive)
        return function

    return enter
