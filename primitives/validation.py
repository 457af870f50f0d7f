"""The validation of operations: they are called before they are registered.

`validate_operation` checks each rule on values of every size; `require_unique_operation` compares
them with all others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product

import torch
from torch import Tensor

from autoprox.parallel.threads import single_torch_thread
from autoprox.primitives.primitive import Primitive, PrimitiveError, ValueLevel, apply_primitive

from .notation import placeholders

SMALL: Mapping[ValueLevel, tuple[int, ...]] = {
    "matrix": (2, 3, 4),
    "layers": (2, 12),
    "network": (2, 12),
}
LARGE: Mapping[ValueLevel, tuple[int, ...]] = {
    "matrix": (6, 5, 8),
    "layers": (6, 12),
    "network": (6, 12),
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
    "right_identity": lambda f, x: torch.equal(f(x[0], torch.ones_like(x[1])), x[0]),
    "keeps_nonnegative": lambda f, x: torch.equal(
        f(x[0].abs(), *map(torch.ones_like, x[1:])), x[0].abs()
    ),
}


def validate_operation(name: str, primitive: Primitive) -> None:
    """Raise `PrimitiveError` with the first rule that the primitive breaks, and where."""
    if not isinstance(primitive, Primitive) or primitive.name != name:
        raise PrimitiveError(f"an operation is a record of its name, but {name} is {primitive!r}")
    if not primitive.rule:
        raise PrimitiveError(f"an operation states its rule in a docstring, but `{name}` has none")
    arguments = {"x", "y"} if primitive.arity == 2 else {"x"}
    if not arguments <= (found := placeholders(primitive.latex)):
        raise PrimitiveError(
            f"a LaTeX template has the places {sorted(arguments)}, but `{name}` has {sorted(found)}"
        )
    possible, levels = primitive.possible_levels, (*primitive.levels, *primitive.formerly)
    if unknown := set(levels).difference(possible):
        raise PrimitiveError(
            f"an operation of the kind {primitive.kind} has the levels {', '.join(possible)}, "
            f"but `{name}` has {', '.join(sorted(unknown))}"
        )
    with single_torch_thread():
        for level, dtype in product(levels, HUGE):
            _validate_at(primitive, level, dtype)


def _validate_at(primitive: Primitive, level: ValueLevel, dtype: torch.dtype) -> None:
    """Call it on all samples together; if that breaks a rule, one by one, to name the first."""
    ramp = torch.linspace(-1.0, 1.0, 24, dtype=dtype).reshape(SMALL[level])
    samples = {
        "zeros": torch.zeros_like(ramp),
        "negatives": ramp - 2.0,
        "ordinary values": ramp * 3.0,
        "huge values": ramp * HUGE[dtype],
        "tiny values": ramp * 1e-30,
    }
    cases = list(product(samples, repeat=primitive.arity))
    columns = [torch.cat([samples[name] for name in column]) for column in zip(*cases, strict=True)]
    where = f"({level}, {dtype})"
    try:
        _validate_case(
            primitive, level, columns, f"`{primitive.name}` on values of all sizes {where}"
        )
    except PrimitiveError:
        for chosen in cases:
            case = f"`{primitive.name}` on {' and '.join(chosen)} {where}"
            _validate_case(primitive, level, [samples[sample] for sample in chosen], case)
        raise


def _validate_case(primitive: Primitive, level: ValueLevel, args: list[Tensor], case: str) -> None:
    def call(*values: Tensor) -> Tensor:
        return apply_primitive(primitive, values, level)

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
    for index in range(len(args)) if primitive.takes_out else ():
        copies = [arg.clone() for arg in args]
        written = primitive.function(*copies, out=copies[index])
        require(
            written is copies[index] and torch.equal(written, value),
            "writes the same over one of its values",
        )
    if primitive.of_magnitude:
        shorter = apply_primitive(primitive.on_nonnegative, [arg.abs() for arg in args], level)
        require(torch.equal(shorter, value), "is its `of_magnitude` of |x| bit for bit")
    for flag, holds in FLAGS.items():
        if getattr(primitive, flag):
            require(holds(call, args), f"flagged `{flag}` is so bit for bit")


def require_unique_operation(primitive: Primitive, others: Mapping[str, Primitive]) -> None:
    """Raise `PrimitiveError` if it is constant, changes nothing, or equals another of its type."""
    with single_torch_thread():
        for level in primitive.levels:
            value, args = _outcome(primitive, level), _random_values(level)[: primitive.arity]
            where = f"`{primitive.name}` on {level}"
            if torch.allclose(value, value.flatten()[0]):
                raise PrimitiveError(f"an operation depends on its values, but not {where}")
            if any(_equal(value, arg) for arg in args):
                raise PrimitiveError(f"an operation changes its values, but not {where}")
            for other in others.values():
                comparable = other.arity == primitive.arity and level in other.levels
                if comparable and _equal(value, _outcome(other, level)):
                    raise PrimitiveError(
                        f"an operation differs from all others, but {where} is `{other.name}`"
                    )


@cache
def _outcome(primitive: Primitive, level: ValueLevel) -> Tensor:
    return apply_primitive(primitive, _random_values(level)[: primitive.arity], level)


@cache
def _random_values(level: ValueLevel) -> list[Tensor]:
    """Two batches of values of either sign, small, ordinary and large."""
    generator = torch.Generator().manual_seed(0)
    shape = LARGE[level]
    sizes = torch.logspace(-1, 1, shape[0], dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    return [sizes * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)]


def _equal(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.allclose(x, y)
