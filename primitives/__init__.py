"""The operations of the proxy language: one record each, proved when it is registered."""

from . import binary, combine, maps, normalise, reduce
from .base import Kind, Level, Primitive, PrimitiveError, apply
from .notation import Binding, Formula, Operation, fill
from .registry import COMBINATORS, PRIMITIVES, register

__all__ = [
    "COMBINATORS",
    "PRIMITIVES",
    "Binding",
    "Formula",
    "Kind",
    "Level",
    "Operation",
    "Primitive",
    "PrimitiveError",
    "apply",
    "binary",
    "combine",
    "fill",
    "maps",
    "normalise",
    "reduce",
    "register",
]
