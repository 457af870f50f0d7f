"""Maps: functions of one number, applied to each element.

They run on millions of cache-sized chunks, so each is as few kernels as it can be, the later ones
in place on the first one's result.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import sympy
import torch
from sympy import Abs, Integer, Max, Mul, Pow, Rational
from torch import Tensor
from torch.nn.functional import pad

from autoprox.primitives.notation import BindingStrength, sympy_magnitude

from .primitive import EPSILON, EXPONENT_LIMIT
from .registration import register_operation

VECTOR = 64
register_map = partial(register_operation, "map")
register_power = partial(register_map, binding=BindingStrength.POWER)


def _in_whole_vectors(function: Callable[..., Tensor], x: Tensor, out: Tensor | None) -> Tensor:
    """Apply a function for which torch on a CPU has another formula in a part-filled register.

    Without this, the last bits of a value would depend on the rest of its batch.
    """
    if not x.is_contiguous():
        x, out = x.contiguous(), None
    rest = x.numel() % VECTOR
    if not rest or x.device.type != "cpu":
        return function(x, out=out)
    whole = x.numel() - rest
    last = function(pad(x.view(-1).narrow(0, whole, rest), (0, VECTOR - rest)))
    value = function(x, out=out)
    value.view(-1).narrow(0, whole, rest).copy_(last.narrow(0, 0, rest))
    return value


def apply_by_numpy(
    function: np.ufunc, x: Tensor, out: Tensor | None, by_torch: Callable[..., Tensor] | None = None
) -> Tensor:
    """Apply a function by numpy on a CPU, which for some is several times faster than torch."""
    out = torch.empty_like(x) if out is None else out
    if x.device.type == "cpu":
        function(x.numpy(), out=out.numpy())
        return out
    on_device: Callable[..., Tensor] = by_torch or getattr(torch, function.__name__)
    return on_device(x, out=out)


@register_map(
    sympy=lambda x: Mul(Integer(-1), x, evaluate=False),
    latex="-<x:SERIES>",
    binding=BindingStrength.SIGNED,
    plain=lambda x: -x,
)
def neg(x: Tensor, out: Tensor | None = None) -> Tensor:
    """-x."""
    return torch.neg(x, out=out)


@register_map(
    sympy=lambda x: Abs(x, evaluate=False),
    latex=r"\left|<x>\right|",
    even=True,
    nonnegative=True,
    idempotent=True,
    keeps_nonnegative=True,
    plain=lambda x: x.abs(),
)
def abs_(x: Tensor, out: Tensor | None = None) -> Tensor:
    """|x|."""
    return torch.abs(x, out=out)


@register_map(
    sympy=lambda x: sympy.sign(x, evaluate=False), idempotent=True, plain=lambda x: x.sign()
)
def sign(x: Tensor, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1 as x is negative, zero or positive."""
    return torch.sign(x, out=out)


@register_power(
    sympy=lambda x: Pow(x, Integer(2), evaluate=False),
    latex="<x:ATOM>^{2}",
    even=True,
    nonnegative=True,
    plain=lambda x: x.square(),
)
def square(x: Tensor, out: Tensor | None = None) -> Tensor:
    """x to the power of 2."""
    return torch.square(x, out=out)


@register_power(
    sympy=lambda x: Pow(x, Integer(3), evaluate=False),
    latex="<x:ATOM>^{3}",
)
def cube(x: Tensor, out: Tensor | None = None) -> Tensor:
    """x to the power of 3."""
    return torch.pow(x, 3, out=out)


def _of_magnitude(function: Callable[..., Tensor], x: Tensor, out: Tensor | None) -> Tensor:
    magnitudes = torch.abs(x, out=out)
    return function(magnitudes, magnitudes)


def _root(x: Tensor, out: Tensor | None = None) -> Tensor:
    return apply_by_numpy(np.sqrt, x, out)


@register_map(
    sympy=lambda x: Pow(sympy_magnitude(x), Rational(1, 2), evaluate=False),
    latex=r"\sqrt{<x:|>}",
    of_magnitude=_root,
    even=True,
    nonnegative=True,
    plain=lambda x: x.abs().sqrt(),
)
def sqrt(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The square root of |x|."""
    return _of_magnitude(_root, x, out)


def _signed_root(x: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.copysign(x.abs().pow_(1 / 3), x, out=out)


@register_map(latex=r"\sqrt[3]{<x>}", plain=lambda x: x.sign() * x.abs().pow(1 / 3))
def cbrt(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The cube root of x, which has the sign of x."""
    return apply_by_numpy(np.cbrt, x, out, _signed_root)


def _log(x: Tensor, out: Tensor | None = None) -> Tensor:
    shifted = torch.add(x, EPSILON, out=out)
    return apply_by_numpy(np.log, shifted, shifted)


@register_map(
    sympy=lambda x: sympy.log(sympy_magnitude(x), evaluate=False),
    latex=r"\log\left(<x:|>\right)",
    of_magnitude=_log,
    even=True,
    plain=lambda x: (x.abs() + EPSILON).log(),
)
def log(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The natural logarithm of |x| + 1e-12."""
    return _of_magnitude(_log, x, out)


def _log1p(x: Tensor, out: Tensor | None = None) -> Tensor:
    return apply_by_numpy(np.log1p, x, out)


@register_map(
    latex=r"\log\left(1 + <x:|>\right)",
    of_magnitude=_log1p,
    even=True,
    nonnegative=True,
    plain=lambda x: x.abs().log1p(),
)
def log1p(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The natural logarithm of 1 + |x|."""
    return _of_magnitude(_log1p, x, out)


@register_power(
    sympy=lambda x: sympy.exp(x, evaluate=False),
    latex="e^{<x>}",
    nonnegative=True,
    plain=lambda x: x.clamp(max=EXPONENT_LIMIT).exp(),
)
def exp(x: Tensor, out: Tensor | None = None) -> Tensor:
    """e to the power of x, where an x above 30 counts as 30."""
    # On a CPU, torch's exp2 is faster than its exp.
    bits = torch.clamp(x, max=EXPONENT_LIMIT, out=out).mul_(math.log2(math.e))
    return _in_whole_vectors(torch.exp2, bits, bits)


@register_power(
    sympy=lambda x: Pow(x, Integer(-1), evaluate=False),
    latex=r"\frac{1}{<x>}",
    plain=lambda x: torch.where(x.abs() <= EPSILON, 0.0, 1 / x),
)
def inverse(x: Tensor, out: Tensor | None = None) -> Tensor:
    """1 / x, and 0 where |x| <= 1e-12."""
    # On a CPU, a comparison and a mask are slower than arithmetic.
    quotient = torch.hardshrink(x, EPSILON, out=out).reciprocal_()
    return quotient.nan_to_num_(nan=math.nan, posinf=0.0, neginf=0.0)


@register_map(
    sympy=lambda x: Max(Integer(0), x, evaluate=False),
    latex=r"\max\left(0, <x>\right)",
    nonnegative=True,
    idempotent=True,
    keeps_nonnegative=True,
    plain=lambda x: x.clamp(min=0.0),
)
def relu(x: Tensor, out: Tensor | None = None) -> Tensor:
    """x where x is positive, else 0."""
    return torch.clamp(x, min=0.0, out=out)


@register_map(latex=r"\sigma\left(<x>\right)", nonnegative=True, plain=lambda x: x.sigmoid())
def sigmoid(x: Tensor, out: Tensor | None = None) -> Tensor:
    """1 / (1 + e^-x)."""
    return _in_whole_vectors(torch.sigmoid, x, out)


@register_map(
    sympy=lambda x: sympy.tanh(x, evaluate=False),
    latex=r"\tanh\left(<x>\right)",
    plain=lambda x: x.tanh(),
)
def tanh(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent of x."""
    return apply_by_numpy(np.tanh, x, out)


@register_map(nonnegative=True, plain=lambda x: relu(x) + x.abs().neg().exp().log1p())
def softplus(x: Tensor, out: Tensor | None = None) -> Tensor:
    """ln(1 + e^x), as max(0, x) + ln(1 + e^-|x|), so that it can't overflow."""
    rest = log1p(exp(x.abs().neg_()))
    return relu(x, out).add_(rest)


@register_map()
def gelu(x: Tensor, out: Tensor | None = None) -> Tensor:
    """x times the probability that a standard normal number is below x."""
    return _in_whole_vectors(torch.nn.functional.gelu, x, out)


@register_map(nonnegative=True, idempotent=True)
def heaviside(x: Tensor, out: Tensor | None = None) -> Tensor:
    """1 where x is positive, else 0."""
    return torch.sign(x, out=out).clamp_(min=0.0)
