"""The record of an operation, and its application to values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import sympy as sp
from torch import Tensor

from autoprox.errors import AutoproxError
from autoprox.primitives.notation import BindingStrength

OperationKind = Literal["map", "normalise", "depth", "reduce", "binary", "pair", "combinator"]
ValueLevel = Literal["matrix", "layers", "network"]
DIMS: Mapping[ValueLevel, tuple[int, ...]] = {"matrix": (-2, -1), "layers": (-1,)}

EPSILON = 1e-12
EXPONENT_LIMIT = 30.0


class PrimitiveError(AutoproxError):
    """An operation that breaks a rule of the registry."""


@dataclass(frozen=True)
class Primitive:
    """One operation, from which every other table (grammar, display, documentation) is derived.

    `function` takes the values alone, or the values and `dims` where `along_axis`. It never raises,
    and modifies no argument but `out`: if it accepts that, a tensor for its result, it may be given
    one of its values. Its result is finite if its arguments are, unless it is too large for their
    format (a fourth power in float32).

    - `sympy` takes the values' expressions, and the symbol of the axis where `along_axis`.
    - `latex` is a template (`notation`), of which `binding` says how tightly it binds.
    - `plain`, a lambda, is the function at its most readable: exported Python files contain it
      instead. `operator` is the Python operator that they write for the operation.
    - `shared` is computed once of a value for all operations that have it: it takes the value and
      `dims`, and `function` takes what it returns.
    - `of_magnitude` is the function of |x| in fewer steps, for values known to be nonnegative.
    - The operation exists at `levels`, where no other equals it and it isn't constant. Expressions
      may also use it at the levels of `formerly`, where earlier versions had it.
    - The grammar draws it unless `drawn` is false; then it is only read from text.

    The flags hold bit for bit, signs of zero apart, wherever the values are finite:

    - commutative: f(x, y) = f(y, x)
    - even: f(-x) = f(|x|) = f(x)
    - mirrored: f(-x) = f(x), and not always f(|x|)
    - nonnegative: f(x) >= 0
    - idempotent: f(f(x)) = f(x)
    - right_identity: f(x, 1) = x
    - keeps_nonnegative: f(x) = x, or f(x, 1) = x, for x >= 0
    """

    name: str
    kind: OperationKind
    function: Callable[..., Tensor]
    sympy: Callable[..., sp.Expr]
    latex: str
    binding: BindingStrength = BindingStrength.ATOM
    commutative: bool = False
    even: bool = False
    mirrored: bool = False
    nonnegative: bool = False
    idempotent: bool = False
    right_identity: bool = False
    keeps_nonnegative: bool = False
    plain: Callable[..., Tensor] | None = None
    operator: str = ""
    of_magnitude: Callable[..., Tensor] | None = None
    shared: Callable[..., Tensor] | None = None
    levels: tuple[ValueLevel, ...] = ()
    formerly: tuple[ValueLevel, ...] = ()
    drawn: bool = True

    def __post_init__(self) -> None:
        if not self.levels:
            levels = [level for level in self.possible_levels if level in DIMS]
            object.__setattr__(self, "levels", tuple(levels) or self.possible_levels)

    @property
    def possible_levels(self) -> tuple[ValueLevel, ...]:
        """The levels that an operation of this kind may have."""
        if self.kind == "binary":
            return ("matrix", "layers", "network")
        if self.kind == "combinator":
            return ("network",)
        return ("layers",) if self.kind == "depth" else ("matrix", "layers")

    @property
    def arity(self) -> int:
        return 2 if self.kind in ("binary", "pair") else 1

    @property
    def reduces(self) -> bool:
        return self.kind in ("reduce", "pair")

    @property
    def along_axis(self) -> bool:
        return self.reduces or self.kind in ("normalise", "depth")

    @property
    def compares_networks(self) -> bool:
        """Whether a network's result depends on the other networks."""
        return self.kind == "combinator"

    @cached_property
    def takes_out(self) -> bool:
        return "out" in inspect.signature(self.function).parameters

    @cached_property
    def on_nonnegative(self) -> Primitive:
        """The operation for values that are known to be nonnegative."""
        return replace(self, function=self.of_magnitude or self.function)

    @property
    def rule(self) -> str:
        """The docstring: what the operation does and how it stays finite."""
        return inspect.cleandoc(self.function.__doc__ or "")


def apply_primitive(
    primitive: Primitive, args: Sequence[Tensor], level: ValueLevel, out: Tensor | None = None
) -> Tensor:
    """Apply a primitive to batches of values of one level.

    A matrix is `[..., rows, columns]`, a layer vector `[..., layers]`, a score `[..., networks]`.
    """
    if primitive.shared:
        return primitive.function(*(primitive.shared(arg, DIMS[level]) for arg in args))
    if primitive.along_axis:
        return primitive.function(*args, DIMS[level])
    return primitive.function(*args) if out is None else primitive.function(*args, out=out)
