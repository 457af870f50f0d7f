"""Published proxies that aren't expressions of the language: one function for each.

Each follows its paper's equation on the layers of a transformer: the linear layers of the blocks,
for convolutions, and the GELU of their MLPs, for ReLU. Its docstring says what else was chosen.
"""

from autoprox.zoo import expressions  # noqa: F401  # before: they come first in the registry

from . import activations, gradients, jacobians  # noqa: F401
from .function_proxies import (
    FUNCTION_PROXIES,
    FunctionProxy,
    function_proxy,
    measure_all,
    register_function,
)
from .measure_passes import MeasureError, MeasurePasses

__all__ = [
    "FUNCTION_PROXIES",
    "FunctionProxy",
    "MeasureError",
    "MeasurePasses",
    "function_proxy",
    "measure_all",
    "register_function",
]
