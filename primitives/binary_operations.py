"""Combinators: binary operations on two values of one type, and the rank of scores."""

from functools import partial

import torch
from sympy import Add, Integer, Mul, Pow
from torch import Tensor
from torch.nn.functional import hardshrink, pad

from autoprox.primitives.notation import BindingStrength, sympy_magnitude
from autoprox.primitives.primitive import EPSILON, ValueLevel

from .elementwise import VECTOR, exp, log
from .registration import register_operation

EVERYWHERE: tuple[ValueLevel, ...] = ("matrix", "layers", "network")
register_binary = partial(register_operation, "binary")
register_arithmetic = partial(register_binary, levels=EVERYWHERE)


@register_arithmetic(
    sympy=lambda x, y: Add(x, y, evaluate=False),
    latex="<x> + <y:TERM>",
    binding=BindingStrength.TERM,
    operator="+",
    commutative=True,
)
def add(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """x + y."""
    return torch.add(x, y, out=out)


@register_arithmetic(
    sympy=lambda x, y: Add(x, Mul(Integer(-1), y, evaluate=False), evaluate=False),
    latex="<x> - <y:SERIES>",
    binding=BindingStrength.TERM,
    operator="-",
)
def sub(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """x - y."""
    return torch.sub(x, y, out=out)


@register_arithmetic(
    sympy=lambda x, y: Mul(x, y, evaluate=False),
    latex="<x:PRODUCT> <times> <y:PRODUCT>",
    binding=BindingStrength.PRODUCT,
    operator="*",
    commutative=True,
    right_identity=True,
)
def mul(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """x times y."""
    return torch.mul(x, y, out=out)


@register_arithmetic(
    sympy=lambda x, y: Mul(x, Pow(y, Integer(-1), evaluate=False), evaluate=False),
    latex=r"\frac{<x>}{<y>}",
    binding=BindingStrength.POWER,
    right_identity=True,
    plain=lambda x, y: torch.where(y.abs() <= EPSILON, 0.0, x / y),
)
def div(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """x / y, and 0 where |y| <= 1e-12."""
    # Infinite where |y| <= 1e-12, else 0; on a CPU, faster than a comparison and a mask.
    gap = hardshrink(hardshrink(y, EPSILON).reciprocal_(), 2 / EPSILON)
    return torch.div(x, gap.add_(y), out=out)


@register_binary(latex=r"\max\left(<x>, <y>\right)", text="max(<x>)", commutative=True)
def maximum(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """The larger of x and y."""
    return torch.maximum(x, y, out=out)


@register_binary(latex=r"\min\left(<x>, <y>\right)", text="min(<x>)", commutative=True)
def minimum(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """The smaller of x and y."""
    return torch.minimum(x, y, out=out)


@register_binary(
    latex=r"\left|<x>\right|^{<y>}",
    binding=BindingStrength.POWER,
    nonnegative=True,
    plain=lambda x, y: exp(log(x) * y),
)
def power(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """|x| to the power of y, computed by `exp` and `log`: e^(y ln(|x| + 1e-12)), at most e^30."""
    exponent = torch.mul(log(x), y, out=out)
    return exp(exponent, exponent)


@register_binary(
    levels=("network",),
    sympy=lambda x, y: Pow(sympy_magnitude(x), y, evaluate=False),
    latex=r"\left|<x>\right|^{<y>}",
    binding=BindingStrength.POWER,
    nonnegative=True,
    keeps_nonnegative=True,
    drawn=False,
    plain=lambda x, y: torch.where(
        (x.abs() <= EPSILON) & (y < 0), 0.0, x.abs().pow(y).clamp(max=torch.finfo(x.dtype).max)
    ),
)
def pow_(x: Tensor, y: Tensor) -> Tensor:
    """|x| to the power of y, and 0 where |x| <= 1e-12 and y is negative; finite where x and y are.

    A power beyond the largest number of the format is that number.
    """
    x, y = torch.broadcast_tensors(x.abs(), y)  # type: ignore[no-untyped-call]
    # Padded, since torch on a CPU has another formula for what fills no whole register.
    flat = [pad(value.reshape(-1), (0, -x.numel() % VECTOR)) for value in (x, y)]
    power = torch.pow(*flat).narrow(0, 0, x.numel()).view(x.shape)
    power = power.masked_fill((x <= EPSILON) & (y < 0), 0.0)
    return power.clamp_(max=torch.finfo(x.dtype).max)


@register_operation("combinator", nonnegative=True, idempotent=True)
def rank(x: Tensor) -> Tensor:
    """The rank among the compared networks, from 1 up; ties get the average of their ranks.

    A score that isn't finite has no rank (NaN) and isn't counted for the others.
    """
    unranked = x.isfinite().logical_not()
    scores = x.masked_fill(unranked, torch.inf).contiguous()
    ordered = scores.sort(-1).values
    lower = torch.searchsorted(ordered, scores)
    upper = torch.searchsorted(ordered, scores, right=True)
    return (lower + upper + 1).to(x.dtype).div_(2).masked_fill_(unranked, torch.nan)
