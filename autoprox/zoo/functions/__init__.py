"""Published proxies that aren't expressions of the language: one function for each.

Each follows its paper's equation on the layers of a transformer: the linear layers of the blocks,
for convolutions, and the GELU of their MLPs, for ReLU. What else had to be chosen stands in its
docstring.
"""

from . import activations, gradients, jacobians, kernels
from .passes import MeasureError, Passes
from .registry import MEASURES, Measure, measure_all, register

__all__ = [
    "MEASURES",
    "Measure",
    "MeasureError",
    "Passes",
    "activations",
    "gradients",
    "jacobians",
    "kernels",
    "measure_all",
    "register",
]
