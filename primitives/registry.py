"""The registry: every operation that is known, each entered by one decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import sympy as sp
from torch import Tensor

from .base import Kind, Primitive, PrimitiveError
from .notation import Binding, Operation
from .proof import prove

_PRIMITIVES: dict[str, Primitive] = {}
_COMBINATORS: dict[str, Primitive] = {}
PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(_PRIMITIVES)
COMBINATORS: Mapping[str, Primitive] = MappingProxyType(_COMBINATORS)

Function = TypeVar("Function", bound=Callable[..., Tensor])


def register(
    kind: Kind,
    *,
    sympy: Callable[..., sp.Expr] | None = None,
    latex: str | None = None,
    text: str | None = None,
    binding: Binding = Binding.ATOM,
    of_magnitude: Callable[..., Tensor] | None = None,
    **flags: bool,
) -> Callable[[Function], Function]:
    """Prove the decorated function and enter it under its name, less a final underscore.

    Without `sympy`, its sympy form is a function of that name, pretty-printed by the template
    `text`; without templates it is written as name(x), the axis as a subscript.
    """

    def enter(function: Function) -> Function:
        name = function.__name__.rstrip("_")
        if name in _PRIMITIVES or name in _COMBINATORS:
            raise PrimitiveError(f"an operation's name must be free, but {name!r} is registered")
        template = latex or _call(name, along_axis=kind in ("normalise", "reduce"))
        form = sympy or Operation.named(
            name,
            text or f"{name}<axis>(<x>)",
            template,
            reduces=kind == "reduce",
            nonnegative=flags.get("nonnegative", False),
        )
        primitive = Primitive(
            name, kind, function, form, template, binding, of_magnitude=of_magnitude, **flags
        )
        prove(primitive)
        if kind != "combinator":
            _PRIMITIVES[name] = primitive
        if kind in ("binary", "combinator"):
            _COMBINATORS[name] = primitive
        return function

    return enter


def _call(name: str, along_axis: bool) -> str:
    # matplotlib's mathtext has no underscore within a name.
    subscript = "_{<axis>}" if along_axis else ""
    return rf"\operatorname{{{name.replace('_', '')}}}{subscript}\left(<x>\right)"
