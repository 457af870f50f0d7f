"""Published proxies that aren't expressions of the language: one function for each.

Each follows its paper's equation on the layers of a transformer: the linear layers of the blocks,
for convolutions, and the GELU of their MLPs, for ReLU. What else had to be chosen stands in its
docstring.
"""

from autoprox.zoo import expressions  # noqa: F401  # before: they come first in the registry

from . import activations, gradients, jacobians  # noqa: F401
from .passes import MeasureError, Passes
from .registry import MEASURES, FunctionProxy, function_proxy, measure_all, register

__all__ = [
    "MEASURES",
    "FunctionProxy",
    "MeasureError",
    "Passes",
    "function_proxy",
    "measure_all",
    "register",
]
