"""The oracle of the engine's tests: a plain evaluator, one network and one layer at a time.

It shares no code with the operations that it checks: numpy and scipy only, float64 throughout.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from autoprox.language import Tree

Array = NDArray[np.float64]
# For each terminal, for each network: the matrices of its layers, or its structure's vector.
World = Mapping[str, Sequence[Any]]


def naive_evaluate(tree: Tree, world: World) -> Array:
    """The scores [networks] of a complete proxy."""
    with np.errstate(all="ignore"):
        return np.asarray(_values(tree, world), dtype=float)


def random_world(seed: int, networks: int = 3) -> dict[str, list[Any]]:
    """Statistics of small networks of different depths and widths, related as real ones are."""
    rng = np.random.default_rng(seed)
    described = [_random_network(rng) for _ in range(networks)]
    return {name: [network[name] for network in described] for name in described[0]}


def _values(tree: Tree, world: World) -> Any:
    if not tree.args and tree.type.level == "Network":
        return np.full(len(world["one"]), float(tree.symbol))
    if not tree.args:
        return world[tree.symbol]
    function = FUNCTIONS[tree.symbol]
    args = [_values(arg, world) for arg in tree.args]
    level = tree.args[0].type.level
    if level == "Network":
        return function(*map(np.asarray, args))
    if level == "Layers":
        return [function(*vectors) for vectors in zip(*args, strict=True)]
    networks = zip(*args, strict=True)
    layers = [[function(*pair) for pair in zip(*each, strict=True)] for each in networks]
    return [np.array(each) for each in layers] if tree.type.level == "Layers" else layers


def _guarded(x: Array, y: Array) -> Array:
    return np.where(np.abs(y) < 1e-12, 0.0, x / y)


def _pow(x: Array, y: Array) -> Array:
    power = np.where((np.abs(x) <= 1e-12) & (y < 0), 0.0, np.power(np.abs(x), y))
    return np.minimum(power, np.finfo(float).max)


def _share(x: Array, divisor: float) -> Array:
    return np.zeros_like(x) if divisor == 0 else x / divisor


def _singular_values(x: Array) -> Array:
    if not np.isfinite(x).all():
        return np.array([np.nan])
    matrix = x.reshape(len(x), -1)
    # LAPACK's values for x and -x differ in the last bits, as do those for 0 and -0: the largest
    # element is made positive, and every zero.
    largest = matrix.flat[np.abs(matrix).argmax()]
    return np.linalg.svd(matrix * np.sign(largest) + 0.0, compute_uv=False)


def _effective_rank(x: Array) -> float:
    values = _singular_values(x)
    return float(np.exp(stats.entropy(values))) if values.sum() != 0 else 0.0


def _spectrum_ratio(x: Array, power: int) -> float:
    """The sum of squared singular values over their largest, or to the power over the sum of it."""
    squares = np.square(_singular_values(x))
    if squares.sum() == 0:
        return 0.0
    shares = squares / squares.max()
    return float(shares.sum() ** power / (shares**power).sum() if power > 1 else shares.sum())


def _entropy(x: Array) -> float:
    return float(stats.entropy(np.abs(x), axis=None)) if np.any(x != 0) else 0.0


def _sparsity(x: Array) -> float:
    root, norm = np.sqrt(x.size), np.linalg.norm(x)
    if root == 1 or norm == 0:
        return float(norm * 0)
    return float(np.maximum((root - np.abs(x).sum() / norm) / (root - 1), 0))


def _z_score(x: Array) -> Array:
    return _share(x - x.mean(), float(x.std()))


def _unit(x: Array) -> Any:
    return _share(x, float(np.linalg.norm(x)))


def _cosine(x: Array, y: Array) -> float:
    return float(np.sum(_unit(x) * _unit(y)))


def _rank(scores: Array) -> Array:
    finite = np.isfinite(scores)
    ranks = np.full(len(scores), np.nan)
    ranks[finite] = stats.rankdata(scores[finite])
    return ranks


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "log": lambda x: np.log(np.abs(x) + 1e-12),
    "cube": lambda x: x**3,
    "cbrt": np.cbrt,
    "log1p": lambda x: np.log1p(np.abs(x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "gelu": lambda x: x * special.ndtr(x),
    "heaviside": lambda x: np.where(np.isnan(x), 0.0, np.heaviside(x, 0)),
    "difference": lambda x: np.diff(x, prepend=x[:1]),
    "cumulative_sum": np.cumsum,
    "last": lambda x: x[-1],
    "exp": lambda x: np.exp(np.minimum(x, 30)),
    "inverse": lambda x: _guarded(np.ones_like(x), x),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "min_max": lambda x: _share(x - x.min(), x.max() - x.min()),
    "z_score": _z_score,
    "softmax": lambda x: special.softmax(x, axis=-1),
    "log_softmax": lambda x: special.log_softmax(x, axis=-1),
    "unit": _unit,
    "sum": np.sum,
    "mean": np.mean,
    "std": np.std,
    "var": np.var,
    "skewness": lambda x: np.mean(_z_score(x) ** 3),
    "kurtosis": lambda x: np.mean(np.square(np.square(_z_score(x)))),
    "max": np.max,
    "min": np.min,
    "median": np.median,
    "entropy": _entropy,
    "sparsity": _sparsity,
    "spectral_norm": lambda x: _singular_values(x).max(),
    "stable_rank": lambda x: _spectrum_ratio(x, 1),
    "participation_ratio": lambda x: _spectrum_ratio(x, 2),
    "log_det": lambda x: np.log1p(np.square(_singular_values(x))).sum(),
    "dot": lambda x, y: np.sum(x * y),
    "cosine": _cosine,
    "distance": lambda x, y: np.linalg.norm(x - y),
    "correlation": lambda x, y: _cosine(x - x.mean(), y - y.mean()),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": lambda x, y: np.exp(np.minimum(y * np.log(np.abs(x) + 1e-12), 30)),
    "l1_norm": lambda x: np.abs(x).sum(),
    "frobenius_norm": np.linalg.norm,
    "nuclear_norm": lambda x: _singular_values(x).sum(),
    "logsumexp": special.logsumexp,
    "effective_rank": _effective_rank,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _guarded,
    "rank": _rank,
    "pow": _pow,
}


def _random_network(rng: np.random.Generator) -> dict[str, Any]:
    blocks, width, hidden, tokens = (int(n) for n in rng.integers(2, 4, 4))
    outputs = [(tokens, hidden), (tokens, width)] * blocks
    weights, act = _layers(rng, blocks, width, hidden), _normal(rng, outputs)
    network: dict[str, Any] = {
        "width": np.full(blocks, float(width)),
        "tokens": np.full(blocks, float(tokens)),
        "heads": rng.integers(1, 5, blocks).astype(float),
        "one": np.ones(blocks),
    }
    for probe in ("", "ones.", "ntk."):
        for domain, grads in _layers(rng, blocks, width, hidden).items():
            network[f"{probe}{domain}.grad"] = grads
        for domain, matrices in weights.items():
            network[f"{probe}{domain}.weight"] = (
                [np.abs(matrix) for matrix in matrices] if probe == "ones." else matrices
            )
        network[f"{probe}mlp.act"] = _normal(rng, outputs) if probe == "ones." else act
        network[f"{probe}mlp.act_grad"] = _normal(rng, outputs)
    return network


def _layers(
    rng: np.random.Generator, blocks: int, width: int, hidden: int
) -> dict[str, list[Array]]:
    """A matrix for each layer of each domain; those of `all` are those of the other two."""
    msa = _normal(rng, [(3 * width, width), (width, width)] * blocks)
    mlp = _normal(rng, [(hidden, width), (width, hidden)] * blocks)
    both = [msa[i : i + 2] + mlp[i : i + 2] for i in range(0, 2 * blocks, 2)]
    all_ = [matrix for block in both for matrix in block]
    shapes = [(width, 5)], [(width, width)], [(width, 4), (3, width)], [(7, width)], [(2, 3)]
    stem, keep, widen, head, other = (_normal(rng, own) for own in shapes)
    return {
        **{"msa": msa, "mlp": mlp, "all": all_, "qkv": msa[::2], "stem": stem, "head": head},
        **{"keep": keep, "widen": widen, "other": other, "pool": keep + widen},
        "diverse": msa + keep,
        "salient": mlp + widen + head,
        "net": stem + all_ + keep + widen + head + other,
    }


def _normal(rng: np.random.Generator, shapes: Sequence[tuple[int, int]]) -> list[Array]:
    return [rng.normal(size=shape) for shape in shapes]
