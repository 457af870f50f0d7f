"""The primitives against numpy and scipy, their guards, and the proof of registration."""

from itertools import combinations

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.special
import scipy.stats
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.primitives import COMBINATORS, PRIMITIVES, apply_primitive
from autoprox.primitives.primitive import DIMS

LEVELS = ("matrix", "layers")
RANK = COMBINATORS["rank"]
EVERY = [*PRIMITIVES.values(), RANK]
WORDS = [(p.name, level) for p in PRIMITIVES.values() for level in LEVELS if level in p.levels]
OF_MATRICES = [name for name, level in WORDS if level == "matrix"]


def singular(x):
    return np.linalg.svd(x.reshape(len(x), -1), compute_uv=False)


def hoyer(x):
    root = np.sqrt(x.size)
    return (root - np.abs(x).sum() / np.linalg.norm(x)) / (root - 1)


def entropy_rank(x):
    return np.exp(scipy.stats.entropy(singular(x)))


ORACLES = {
    "cube": lambda x: x**3,
    "cbrt": np.cbrt,
    "log1p": lambda x: np.log1p(np.abs(x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "heaviside": lambda x: np.heaviside(x, 0),
    "difference": lambda x: np.diff(x, prepend=x[0]),
    "cumulative_sum": np.cumsum,
    "last": lambda x: x[-1],
    "var": np.var,
    "skewness": lambda x: scipy.stats.skew(x, axis=None),
    "kurtosis": lambda x: scipy.stats.kurtosis(x, axis=None, fisher=False),
    "max": np.max,
    "min": np.min,
    "median": np.median,
    "entropy": lambda x: scipy.stats.entropy(np.abs(x), axis=None),
    "sparsity": hoyer,
    "spectral_norm": lambda x: np.linalg.norm(x, 2),
    "stable_rank": lambda x: np.square(np.linalg.norm(x) / np.linalg.norm(x, 2)),
    "participation_ratio": lambda x: np.trace(x @ x.T) ** 2 / np.square(x @ x.T).sum(),
    "log_det": lambda x: np.linalg.slogdet(np.eye(len(x)) + x @ x.T)[1],
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": lambda x, y: np.minimum((np.abs(x) + 1e-12) ** y, np.exp(30)),
    "pow": lambda x, y: np.abs(x) ** y,
    "dot": np.vdot,
    "cosine": lambda x, y: 1 - scipy.spatial.distance.cosine(x.ravel(), y.ravel()),
    "distance": lambda x, y: np.linalg.norm(x - y),
    "correlation": lambda x, y: scipy.stats.pearsonr(x.ravel(), y.ravel()).statistic,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "log": lambda x: np.log(np.abs(x) + 1e-12),
    "exp": np.exp,
    "inverse": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": scipy.special.expit,
    "tanh": np.tanh,
    "min_max": lambda x: (x - x.min()) / np.ptp(x),
    "z_score": lambda x: scipy.stats.zscore(x, axis=None),
    "softmax": lambda x: scipy.special.softmax(x, axis=-1),
    "log_softmax": lambda x: scipy.special.log_softmax(x, axis=-1),
    "unit": lambda x: x / np.linalg.norm(x),
    "sum": np.sum,
    "mean": np.mean,
    "std": np.std,
    "l1_norm": lambda x: np.abs(x).sum(),
    "frobenius_norm": np.linalg.norm,
    "nuclear_norm": lambda x: singular(x).sum(),
    "logsumexp": scipy.special.logsumexp,
    "effective_rank": entropy_rank,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}


def value(name, *args, level="matrix"):
    tensors = [torch.as_tensor(arg, dtype=torch.float64) for arg in args]
    return apply_primitive(PRIMITIVES[name], tensors, level).numpy()


def samples(level, arity, dtype=torch.float64, rows=5, columns=9):
    """Two by three values for each argument."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, 3, rows, columns) if level == "matrix" else (2, 3, columns)
    return [2 * torch.randn(shape, generator=generator, dtype=dtype) for _ in range(arity)]


def test_there_are_57_primitives_and_6_combinators():
    kinds = [p.kind for p in PRIMITIVES.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "map": 17,
        "normalise": 5,
        "depth": 2,
        "reduce": 21,
        "binary": 8,
        "pair": 4,
    }
    assert len(PRIMITIVES) == 57
    assert set(COMBINATORS) == {"rank", "add", "sub", "mul", "div", "pow"}
    assert ORACLES.keys() == PRIMITIVES.keys()


def test_flags():
    def flagged(flag):
        return {p.name for p in EVERY if getattr(p, flag)}

    pairs = {"dot", "cosine", "distance", "correlation"}
    assert flagged("commutative") == {"add", "mul", "maximum", "minimum", *pairs}
    norms = {"l1_norm", "frobenius_norm", "entropy", "sparsity"}
    assert flagged("even") == {"abs", "square", "sqrt", "log", "log1p", *norms}
    spectral = {p.name for p in EVERY if p.shared}
    assert flagged("mirrored") == {"std", "var", "kurtosis", *spectral}
    assert flagged("idempotent") == {"abs", "sign", "relu", "heaviside", "min_max", "rank"}
    assert flagged("right_identity") == {"mul", "div"}
    assert flagged("keeps_nonnegative") == {"abs", "relu", "pow"}
    assert {"exp", "softmax", "std", "rank", "power", *spectral} < flagged("nonnegative")
    assert not flagged("nonnegative") & {"neg", "sum", "log", "tanh", "sub", "skewness", "max"}


@pytest.mark.parametrize(("name", "level"), WORDS)
def test_against_numpy_and_scipy(name, level):
    args = samples(level, PRIMITIVES[name].arity)
    found = apply_primitive(PRIMITIVES[name], args, level)
    for index in np.ndindex(2, 3):
        expected = ORACLES[name](*(arg[index].numpy() for arg in args))
        np.testing.assert_allclose(found[index].numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", OF_MATRICES)
def test_float32_matrices(name):
    primitive = PRIMITIVES[name]
    args = samples("matrix", primitive.arity, torch.float32)
    found = apply_primitive(primitive, args, "matrix")
    assert found.dtype == (torch.float64 if primitive.reduces else torch.float32)
    exact = apply_primitive(primitive, [arg.double() for arg in args], "matrix")
    torch.testing.assert_close(found.double(), exact, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("rank", [1, 8, 64])
def test_singular_values_of_a_layer_are_within_1e_5(rank):
    rng = np.random.default_rng(rank)
    x = (rng.normal(size=(64, rank)) @ rng.normal(size=(rank, 96))).astype(np.float32)
    for shape in (x, x.T):
        batch = torch.from_numpy(np.stack([shape, -3 * shape]))
        norms = apply_primitive(PRIMITIVES["nuclear_norm"], [batch], "matrix").numpy()
        values = singular(shape.astype(np.float64))
        np.testing.assert_allclose(norms, values.sum() * np.array([1, 3]), rtol=1e-5)
        ranks = apply_primitive(PRIMITIVES["effective_rank"], [batch], "matrix").numpy()
        np.testing.assert_allclose(ranks, np.exp(scipy.stats.entropy(values)), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("sqrt", [[-4.0, 9.0]], [2.0, 3.0]),
        ("log", [[0.0, -np.e]], [np.log(1e-12), 1.0]),
        ("exp", [[30.0, 31.0, 1e30]], [np.exp(30)] * 3),
        ("inverse", [[0.0, 1e-12, -1e-13, 2e-12, -4.0]], [0.0, 0.0, 0.0, 5e11, -0.25]),
        ("div", [[1.0, 2.0, 3.0], [0.0, -1e-13, 4.0]], [0.0, 0.0, 0.75]),
        ("min_max", [[0.1, 0.1, 0.1]], [0.0, 0.0, 0.0]),
        ("min_max", [[1e-30, 3e-30, 2e-30]], [0.0, 1.0, 0.5]),
        ("z_score", [[0.1] * 7], [0.0] * 7),
        ("unit", [[0.0, 0.0]], [0.0, 0.0]),
        ("std", [[0.1] * 7], 0.0),
        ("effective_rank", [[0.0, 0.0]], 0.0),
        ("effective_rank", [[1.0, 5.0]], 1.0),
        ("nuclear_norm", [[3.0, 4.0]], 5.0),
        ("logsumexp", [[1e30, -1e30]], 1e30),
        ("cbrt", [[-8.0, 0.0, 27.0]], [-2.0, 0.0, 3.0]),
        ("log1p", [[0.0, 1 - np.e]], [0.0, 1.0]),
        ("softplus", [[-1e30, 1e30]], [0.0, 1e30]),
        ("gelu", [[-1e30, 0.0, 1e30]], [0.0, 0.0, 1e30]),
        ("heaviside", [[-1.0, 0.0, 1e-30]], [0.0, 0.0, 1.0]),
        ("power", [[0.0, 0.0, -2.0, 10.0], [0.0, 2.0, 3.0, 99.0]], [1.0, 1e-24, 8.0, np.exp(30)]),
        ("skewness", [[0.1] * 7], 0.0),
        ("kurtosis", [[0.1] * 7], 0.0),
        ("entropy", [[0.0, 0.0]], 0.0),
        ("entropy", [[0.0, -3.0]], 0.0),
        ("entropy", [[1e-30, -1e-30]], np.log(2)),
        ("sparsity", [[0.0, 0.0]], 0.0),
        ("sparsity", [[5.0]], 0.0),
        ("sparsity", [[0.0, -3.0, 0.0]], 1.0),
        ("sparsity", [[0.1, -0.1, 0.1]], 0.0),
        ("cosine", [[0.0, 0.0], [1.0, 2.0]], 0.0),
        ("cosine", [[1e-30, 0.0], [-1e30, 0.0]], -1.0),
        ("correlation", [[0.1, 0.1], [1.0, 2.0]], 0.0),
        ("difference", [[3.0, 5.0, 4.0]], [0.0, 2.0, -1.0]),
        ("cumulative_sum", [[3.0, 5.0, 4.0]], [3.0, 8.0, 12.0]),
        ("last", [[3.0, 5.0, 4.0]], 4.0),
    ],
)
def test_guards(name, args, expected):
    np.testing.assert_allclose(value(name, *args, level="layers"), expected, rtol=1e-11, atol=1e-15)


def test_guards_of_matrices():
    assert value("effective_rank", np.eye(6)) == pytest.approx(6.0, rel=1e-12)
    for name in ("effective_rank", "stable_rank", "participation_ratio", "log_det"):
        assert value(name, np.zeros((4, 3))) == 0.0
    for name in ("effective_rank", "stable_rank", "participation_ratio"):
        assert value(name, np.outer([1.0, 2.0], [3.0, 4.0, 5.0])) == pytest.approx(1.0, rel=1e-7)
    x = samples("matrix", 1)[0]
    assert (value("div", x, x) == 1.0).all()
    flat = torch.full((1, 192, 576), 0.1)
    for name in ("std", "z_score", "min_max"):
        assert not apply_primitive(PRIMITIVES[name], [flat], "matrix").any()
    large = torch.full((2, 2), 1e30)
    assert apply_primitive(PRIMITIVES["frobenius_norm"], [large], "matrix") == pytest.approx(2e30)
    assert apply_primitive(PRIMITIVES["unit"], [large], "matrix").tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize(("name", "level"), WORDS)
def test_a_value_is_the_same_bit_for_bit_in_every_batch(name, level):
    values = samples(level, PRIMITIVES[name].arity, torch.float32, rows=33, columns=61)
    args = [value.flatten(0, 1) for value in values]
    whole = apply_primitive(PRIMITIVES[name], args, level)
    for start, stop in ((0, 1), (3, 4), (1, 5)):
        part = apply_primitive(PRIMITIVES[name], [arg[start:stop] for arg in args], level)
        assert torch.equal(part, whole[start:stop])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [p.name for p in PRIMITIVES.values() if p.takes_out])
def test_a_result_may_take_the_place_of_an_argument(name, dtype):
    args = samples("matrix", PRIMITIVES[name].arity, dtype)
    expected = apply_primitive(PRIMITIVES[name], args, "matrix")
    for overwritten in range(len(args)):
        copies = [arg.clone() for arg in args]
        out = copies[overwritten]
        assert apply_primitive(PRIMITIVES[name], copies, "matrix", out) is out
        assert torch.equal(out, expected)
        for index, (copy, arg) in enumerate(zip(copies, args, strict=True)):
            assert torch.equal(copy, arg) == (index != overwritten)


def test_elementwise_operations_can_write_over_an_argument():
    assert {p.name for p in PRIMITIVES.values() if p.takes_out} == {
        p.name for p in PRIMITIVES.values() if p.kind in ("map", "binary") and p.name != "pow"
    }


@pytest.mark.parametrize("name", [p.name for p in PRIMITIVES.values() if p.kind == "map"])
def test_maps_do_not_depend_on_the_layout_of_a_value(name):
    x = samples("matrix", 1)[0]
    expected = apply_primitive(PRIMITIVES[name], [x], "matrix")
    for dims in ((0, 1), (-2, -1)):
        other = x.transpose(*dims).contiguous().transpose(*dims)
        assert torch.equal(apply_primitive(PRIMITIVES[name], [other], "matrix"), expected)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_a_value_that_is_not_finite_raises_nothing_and_stays_alone(name, bad):
    args = samples("matrix", PRIMITIVES[name].arity)
    expected = apply_primitive(PRIMITIVES[name], args, "matrix")
    for arg in args:
        arg[1, 2, 0, 0] = bad
    found = apply_primitive(PRIMITIVES[name], args, "matrix")
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1, :2], expected[1, :2])
    if np.isnan(bad) and PRIMITIVES[name].reduces:
        assert found[1, 2].isnan()


def test_rank_agrees_with_scipy():
    scores = torch.randint(0, 9, (4, 3, 40), generator=torch.Generator().manual_seed(0)).double()
    expected = scipy.stats.rankdata(scores.numpy(), axis=-1)
    assert np.array_equal(RANK.function(scores), expected)
    swapped = scores.transpose(0, 2).contiguous().transpose(0, 2)
    assert np.array_equal(RANK.function(swapped), expected)


def test_rank_passes_over_scores_that_are_not_finite():
    scores = torch.tensor([2.0, np.nan, -np.inf, 1.0, 2.0, np.inf], dtype=torch.float64)
    expected = [2.5, np.nan, np.nan, 1.0, 2.5, np.nan]
    np.testing.assert_array_equal(RANK.function(scores), expected)


@pytest.mark.parametrize("primitive", EVERY, ids=lambda p: p.name)
def test_no_primitive_waits_for_the_device(primitive):
    with FakeTensorMode():
        for level in (*primitive.levels, *primitive.formerly):
            shape = (2, 3, 5, 9) if level == "matrix" else (2, 3, 9)
            x = torch.empty(shape, device="cuda")
            with pytest.raises(DataDependentOutputException):
                x.sum().item()
            result = apply_primitive(primitive, [x] * primitive.arity, level)
            reduced = len(DIMS[level]) if primitive.reduces else 0
            assert result.device.type == "cuda"
            assert result.shape == shape[: len(shape) - reduced]


def test_every_rule_is_stated():
    assert all(p.rule.endswith(".") for p in EVERY)
    assert "1e-12" in PRIMITIVES["div"].rule


@pytest.mark.parametrize("level", LEVELS)
def test_any_two_operations_differ_somewhere(level):
    words = [PRIMITIVES[name] for name, own in WORDS if own == level]
    values = {p.name: apply_primitive(p, samples(level, p.arity), level) for p in words}
    for first, second in combinations(words, 2):
        x, y = values[first.name], values[second.name]
        same = first.arity == second.arity and x.shape == y.shape
        assert not (same and torch.allclose(x, y)), (first.name, second.name)
