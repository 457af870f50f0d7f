"""The operations of the proxy language: one record each, validated when it is registered.

They import errors, registries and threads, and give `OPERATIONS`, `apply` and two decorators:
`operation` makes a record of a function, `register_operation` registers it too.
"""

from . import combinators, depth_operations, normalisations, reductions, spectral  # noqa: F401
from .notation import Binding, Formula, Operation, fill
from .primitive import DIMS, Level, Primitive, PrimitiveError, apply
from .registration import COMBINATORS, OPERATIONS, PRIMITIVES, operation, register_operation

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
    "register_operation",
]
