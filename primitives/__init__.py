"""The operations of the proxy language: one record each, validated when it is registered.

They import errors, registries and threads, and give `OPERATIONS`, `apply_primitive` and two
decorators: `operation` makes a record of a function, `register_operation` registers it too.
"""

from autoprox.primitives import (  # noqa: F401
    binary_operations,
    depth_operations,
    normalisations,
    reductions,
    spectral,
)
from autoprox.primitives.notation import (
    BindingStrength,
    LatexFormula,
    SympyOperation,
    fill_template,
)
from autoprox.primitives.primitive import (
    DIMS,
    Primitive,
    PrimitiveError,
    ValueLevel,
    apply_primitive,
)

from .registration import COMBINATORS, OPERATIONS, PRIMITIVES, operation, register_operation

__all__ = [
    "COMBINATORS",
    "DIMS",
    "OPERATIONS",
    "PRIMITIVES",
    "BindingStrength",
    "LatexFormula",
    "Primitive",
    "PrimitiveError",
    "SympyOperation",
    "ValueLevel",
    "apply_primitive",
    "fill_template",
    "operation",
    "register_operation",
]
