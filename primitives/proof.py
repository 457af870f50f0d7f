"""The proof that an operation passes before it is registered: called on values of every size."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import torch
from torch import Tensor

from autoprox.parallel.threads import one_thread

from .base import Level, Primitive, PrimitiveError, apply
from .notation import places

SHAPES: Mapping[Level, tuple[int, ...]] = {
    "matrix": (2, 3, 4),
    "layers": (2, 12),
    "network": (2, 12),
}
# float32 leaves room for a square of the largest.
HUGE = {torch.float64: 1e30, torch.float32: 1e9}

Call = Callable[..., Tensor]
FLAGS: Mapping[str, Callable[[Call, Sequence[Tensor]], bool]] = {
    "commutative": lambda f, x: torch.equal(f(*x), f(*reversed(x))),
    "even": lambda f, x: torch.equal(f(x[0]), f(-x[0])) and torch.equal(f(x[0]), f(x[0].abs())),
    "mirrored": lambda f, x: torch.equal(f(x[0]), f(-x[0])),
    "nonnegative": lambda f, x: bool((f(*x) >= 0).all()),
    "idempotent": lambda f, x: torch.equal(f(f(x[0])), f(x[0])),
}


def prove(name: str, primitive: Primitive) -> None:
    """Raise `PrimitiveError` with the first rule that the primitive breaks, and where."""
    if not isinstance(primitive, Primitive) or primitive.name != name:
        raise PrimitiveError(f"an operation is a record of its name, but {name} is {primitive!r}")
    if not primitive.rule:
        raise PrimitiveError(f"an operation states its rule in a docstring, but `{name}` has none")
    arguments = {"x", "y"} if primitive.arity == 2 else {"x"}
    if not arguments <= places(primitive.latex):
        raise PrimitiveError(
            f"a LaTeX template has the places {sorted(arguments)}, but `{name}` has "
            f"{sorted(places(primitive.latex))}"
        )
    _prove_levels(name, primitive)
    with one_thread():
        for level, dtype in product((*primitive.levels, *primitive.formerly), HUGE):
            _prove_at(primitive, level, _samples(level, dtype), f"({level}, {dtype})")


def _prove_levels(name: str, primitive: Primitive) -> None:
    levels = {
        "binary": ("matrix", "layers", "network"),
        "combinator": ("network",),
        "depth": ("layers",),
    }.get(primitive.kind, ("matrix", "layers"))
    if unknown := {*primitive.levels, *primitive.formerly}.difference(levels):
        raise PrimitiveError(
            f"an operation of the kind {primitive.kind} has the levels {', '.join(levels)}, "
            f"but `{name}` has {', '.join(sorted(unknown))}"
        )


def _prove_at(
    primitive: Primitive, level: Level, samples: Mapping[str, Tensor], where: str
) -> None:
    """All samples together; where that breaks a rule, one by one, to name the first that does."""
    cases = list(product(samples, repeat=primitive.arity))
    columns = [torch.cat([samples[name] for name in column]) for column in zip(*cases, strict=True)]
    try:
        _prove_case(primitive, level, columns, f"`{primitive.name}` on values of all sizes {where}")
    except PrimitiveError:
        for chosen in cases:
            case = f"`{primitive.name}` on {' and '.join(chosen)} {where}"
            _prove_case(primitive, level, [samples[sample] for sample in chosen], case)
        raise


def _samples(level: Level, dtype: torch.dtype) -> dict[str, Tensor]:
    ramp = torch.linspace(-1.0, 1.0, 24, dtype=dtype).reshape(SHAPES[level])
    return {
        "zeros": torch.zeros_like(ramp),
        "negatives": ramp - 2.0,
        "ordinary values": ramp * 3.0,
        "huge values": ramp * HUGE[dtype],
        "tiny values": ramp * 1e-30,
    }


def _prove_case(primitive: Primitive, level: Level, args: list[Tensor], case: str) -> None:
    def call(*values: Tensor) -> Tensor:
        return apply(primitive, values, level)

    def require(holds: bool, rule: str) -> None:
        if not holds:
            raise PrimitiveError(f"an operation {rule}, but not {case}")

    before = [arg.clone() for arg in args]
    try:
        value = call(*args)
    except Exception as error:
        raise PrimitiveError(
            f"an operation accepts every finite value, but not {case}: {error}"
        ) from error
    shape, dtype = args[0].shape, args[0].dtype
    if primitive.reduces:
        shape, dtype = shape[:1], torch.float64
    require(
        isinstance(value, Tensor) and value.shape == shape and value.dtype == dtype,
        f"returns a tensor of the right shape and type, here {tuple(shape)} of {dtype}",
    )
    require(bool(value.isfinite().all()), "is finite on finite values")
    require(all(map(torch.equal, args, before)), "leaves its arguments as they are")
    require(torch.equal(call(*args), value), "is deterministic")
    halves = zip(*(arg.chunk(2) for arg in args), strict=True)
    apart = torch.cat([call(*half) for half in halves])
    require(torch.allclose(apart, value), "treats each value of a batch on its own")
    if primitive.takes_out:
        for place in range(len(args)):
            copies = [arg.clone() for arg in args]
            written = primitive.function(*copies, out=copies[place])
            require(
                written is copies[place] and torch.equal(written, value),
                "writes the same over one of its values",
            )
    if primitive.of_magnitude:
        shorter = apply(primitive.on_nonnegative, [arg.abs() for arg in args], level)
        require(torch.equal(shorter, value), "is its `of_magnitude` of |x| bit for bit")
    for flag, holds in FLAGS.items():
        if getattr(primitive, flag):
            require(holds(call, args), f"flagged `{flag}` is so bit for bit")
