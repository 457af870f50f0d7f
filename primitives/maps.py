"""Maps: functions of one number, applied to each element.

They run on millions of cache-sized chunks, so each is as few kernels as it can be, the later ones
in place on the first one's result.
"""

import math
from collections.abc import Callable

import sympy
import torch
from sympy import Abs, Integer, Max, Mul, Pow, Rational
from torch import Tensor
from torch.nn.functional import hardshrink, pad

from .base import EPSILON, EXPONENT_LIMIT
from .notation import Binding, magnitude
from .registry import register

VECTOR = 64


def _in_whole_vectors(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The function of x, where torch has another formula for what doesn't fill a vector register.

    Without this, the last bits of a value would depend on what else is in its batch.
    """
    missing = -x.numel() % VECTOR
    if missing:
        return function(pad(x.flatten(), (0, missing))).narrow(0, 0, x.numel()).view(x.shape)
    return function(x)


@register(
    "map",
    sympy=lambda x: Mul(Integer(-1), x, evaluate=False),
    latex="-<x:SERIES>",
    binding=Binding.SIGNED,
)
def neg(x: Tensor) -> Tensor:
    """-x."""
    return x.neg()


@register(
    "map",
    sympy=lambda x: Abs(x, evaluate=False),
    latex=r"\left|<x>\right|",
    even=True,
    nonnegative=True,
    idempotent=True,
)
def abs_(x: Tensor) -> Tensor:
    """|x|."""
    return x.abs()


@register("map", sympy=lambda x: sympy.sign(x, evaluate=False), idempotent=True)
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 as x is negative, zero or positive."""
    return x.sign()


@register(
    "map",
    sympy=lambda x: Pow(x, Integer(2), evaluate=False),
    latex="<x:ATOM>^{2}",
    binding=Binding.POWER,
    even=True,
    nonnegative=True,
)
def square(x: Tensor) -> Tensor:
    """x to the power of 2."""
    return x.square()


@register(
    "map",
    sympy=lambda x: Pow(magnitude(x), Rational(1, 2), evaluate=False),
    latex=r"\sqrt{<x:|>}",
    even=True,
    nonnegative=True,
)
def sqrt(x: Tensor) -> Tensor:
    """The square root of |x|."""
    return x.abs().sqrt_()


@register(
    "map",
    sympy=lambda x: sympy.log(magnitude(x), evaluate=False),
    latex=r"\log\left(<x:|>\right)",
    even=True,
)
def log(x: Tensor) -> Tensor:
    """The natural logarithm of |x| + 1e-12."""
    return x.abs().add_(EPSILON).log_()


@register(
    "map",
    sympy=lambda x: sympy.exp(x, evaluate=False),
    latex="e^{<x>}",
    binding=Binding.POWER,
    nonnegative=True,
)
def exp(x: Tensor) -> Tensor:
    """e to the power of x, where an x above 30 counts as 30."""
    # On a CPU, torch's exp2 is faster than its exp.
    bits = x.clamp(max=EXPONENT_LIMIT).mul_(math.log2(math.e))
    return _in_whole_vectors(torch.exp2, bits)


@register(
    "map",
    sympy=lambda x: Pow(x, Integer(-1), evaluate=False),
    latex=r"\frac{1}{<x>}",
    binding=Binding.POWER,
)
def inverse(x: Tensor) -> Tensor:
    """1 / x, and 0 where |x| <= 1e-12."""
    # On a CPU, a comparison and a mask are slower than arithmetic.
    quotient = hardshrink(x, EPSILON).reciprocal_()
    return quotient.nan_to_num_(nan=math.nan, posinf=0.0, neginf=0.0)


@register(
    "map",
    sympy=lambda x: Max(Integer(0), x, evaluate=False),
    latex=r"\max\left(0, <x>\right)",
    nonnegative=True,
    idempotent=True,
)
def relu(x: Tensor) -> Tensor:
    """x where x is positive, else 0."""
    return x.relu()


@register("map", latex=r"\sigma\left(<x>\right)", nonnegative=True)
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return _in_whole_vectors(torch.sigmoid, x)


@register("map", sympy=lambda x: sympy.tanh(x, evaluate=False), latex=r"\tanh\left(<x>\right)")
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of x."""
    return x.tanh()
