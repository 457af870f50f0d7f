"""The operations of the proxy language: one record each, proved when it is registered.

They import errors, registries and threads, and give `OPERATIONS`, `apply` and two decorators:
`operation` makes a record of a function, `register` enters it too.
"""

from . import combine, depth, maps, normalise, pairs, reduce, spectral  # noqa: F401
from .base import DIMS, Level, Primitive, PrimitiveError, apply
from .notation import Binding, Formula, Operation, fill
from .registry import COMBINATORS, OPERATIONS, PRIMITIVES, operation, register

__all__ = [
    "COMBINATORS",
    "DIMS",
    "OPERATIONS",
    "PRIMITIVES",
    "Binding",
    "Formula",
    "Level",
    "Operation",
    "Primitive",
    "PrimitiveError",
    "apply",
    "fill",
    "operation",
    "register",
]
