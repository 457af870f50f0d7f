"""Pairs: two matrices of a layer, or two layer vectors, to one float64."""

from torch import Tensor

from .normalise import centred, euclidean, unit
from .reduce import total
from .registry import register


@register(
    "pair",
    latex=r"\left\langle <x>, <y>\right\rangle",
    text="dot<axis>(<x>)",
    commutative=True,
)
def dot(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of the products of elements."""
    return total(x * y, dims)


@register("pair", latex=r"\cos\left(<x>, <y>\right)", commutative=True)
def cosine(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The `dot` of both divided by their norms, and 0 where one has zeros only."""
    return dot(unit(x, dims), unit(y, dims), dims)


@register(
    "pair",
    latex=r"\left\Vert <x> - <y:SERIES>\right\Vert_{F}",
    text="distance<axis>(<x>)",
    commutative=True,
    nonnegative=True,
)
def distance(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The Frobenius norm of x - y."""
    return euclidean(x - y, dims)


@register("pair", latex=r"\operatorname{corr}\left(<x>, <y>\right)", commutative=True)
def correlation(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Pearson's correlation of the elements, and 0 where one has equal elements only."""
    return cosine(centred(x, dims), centred(y, dims), dims)
