"""The record of an operation and its application to values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import sympy as sp
from torch import Tensor

from autoprox.errors import AutoproxError

from .notation import Binding

Kind = Literal["map", "normalise", "depth", "reduce", "binary", "pair", "combinator"]
Level = Literal["matrix", "layers", "network"]
LEVELS: Mapping[Kind, tuple[Level, ...]] = {
    "depth": ("layers",),
    "combinator": ("network",),
}
DIMS: Mapping[Level, tuple[int, ...]] = {"matrix": (-2, -1), "layers": (-1,)}

EPSILON = 1e-12
EXPONENT_LIMIT = 30.0


class PrimitiveError(AutoproxError):
    """An operation that breaks a rule of the registry."""


@dataclass(frozen=True)
class Primitive:
    """One operation, from which every other table (grammar, display, documentation) is derived.

    `function` takes the values alone, or the values and `dims` where `along_axis`; `sympy` takes
    their expressions, and the symbol of the axis in that case. `latex` is a template (`notation`).
    `shared`, where there is one, is computed once of a value for all operations that have it:
    it takes the value and `dims`, and `function` what it returns.

    The operation exists at `levels`, where no other equals it and it isn't constant. Texts may have
    it at the levels of `formerly` too, of which it was a word before. The grammar draws it unless
    `drawn` is false; then it is only read from texts.

    `function` never raises, and modifies no argument but `out`: where it takes that, a tensor for
    its result, it may be given one of its values. Its result is finite where its arguments are,
    unless it is too large for their format (a fourth power in float32). `of_magnitude`, where there
    is one, is the function of |x| in fewer steps, for values that are known to be nonnegative.

    The flags hold bit for bit, signs of zero apart, wherever the values are finite:

    - commutative: f(x, y) = f(y, x)
    - even: f(-x) = f(|x|) = f(x)
    - mirrored: f(-x) = f(x), and not always f(|x|)
    - nonnegative: f(x) >= 0
    - idempotent: f(f(x)) = f(x)
    """

    name: str
    kind: Kind
    function: Callable[..., Tensor]
    sympy: Callable[..., sp.Expr]
    latex: str
    binding: Binding = Binding.ATOM
    commutative: bool = False
    even: bool = False
    mirrored: bool = False
    nonnegative: bool = False
    idempotent: bool = False
    of_magnitude: Callable[..., Tensor] | None = None
    shared: Callable[..., Tensor] | None = None
    levels: tuple[Level, ...] = ()
    formerly: tuple[Level, ...] = ()
    drawn: bool = True

    def __post_init__(self) -> None:
        if not self.levels:
            levels = LEVELS.get(self.kind, ("matrix", "layers"))
            object.__setattr__(self, "levels", levels)

    @property
    def arity(self) -> int:
        return 2 if self.kind in ("binary", "pair") else 1

    @property
    def reduces(self) -> bool:
        return self.kind in ("reduce", "pair")

    @property
    def along_axis(self) -> bool:
        return self.reduces or self.kind in ("normalise", "depth")

    @cached_property
    def takes_out(self) -> bool:
        return "out" in inspect.signature(self.function).parameters

    @cached_property
    def on_nonnegative(self) -> Primitive:
        """The operation for values that are known to be nonnegative."""
        return replace(self, function=self.of_magnitude or self.function)

    @property
    def rule(self) -> str:
        """What the operation does and how it stays finite."""
        return inspect.cleandoc(self.function.__doc__ or "")


def apply(
    primitive: Primitive, args: Sequence[Tensor], level: Level, out: Tensor | None = None
) -> Tensor:
    """Apply a primitive to batches of values of one level.

    A matrix is `[..., rows, columns]`, a layer vector `[..., layers]`, a score `[..., networks]`.
    """
    if primitive.shared:
        return primitive.function(*(primitive.shared(arg, DIMS[level]) for arg in args))
    if primitive.along_axis:
        return primitive.function(*args, DIMS[level])
    if out is not None:
        return primitive.function(*args, out=out)
    return primitive.function(*args)
