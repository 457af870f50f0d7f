"""The display of trees: published proxies as their papers write them, and every tree at all."""

import random

import numpy as np
import pytest
import scipy.special
import scipy.stats
import sympy
import torch
from matplotlib.mathtext import MathTextParser

from autoprox.evolution_parameters import TreeLimits
from autoprox.export import ascii_tree, formula_legend, latex, pretty_formula, to_sympy
from autoprox.language import NETWORK, STATISTICS, STRUCTURE, make_tree, parse_expression
from autoprox.language.grammar import Grammar
from autoprox.primitives import COMBINATORS, OPERATIONS, PRIMITIVES, apply_primitive

SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"
DSS = (
    "add(rank(sum(mul(nuclear_norm(ones.msa.grad), nuclear_norm(ones.msa.weight)))), "
    "rank(sum(sum(mul(ones.mlp.grad, ones.mlp.weight)))))"
)
NTKT = "sum(square(frobenius_norm(ntk.all.grad)))"
SEPT = (
    "add(logsumexp(log(width)), "
    "logsumexp(sub(mul(add(tokens, one), log(width)), log(sub(width, one)))))"
)
NTSR = f"add(rank({NTKT}), rank({SEPT}))"
PRETTY = {
    SNIP: "∑ₗ ∑ᵢⱼ │Wₐₗₗ ⊙ Gₐₗₗ│",
    DSS: "rank(∑ₗ ‖Gᵒⁿᵉˢₘₛₐ‖⋆ ⋅ ‖Wᵒⁿᵉˢₘₛₐ‖⋆) + rank(∑ₗ ∑ᵢⱼ Gᵒⁿᵉˢₘₗₚ ⊙ Wᵒⁿᵉˢₘₗₚ)",
    NTKT: "∑ₗ ‖Gⁿᵗᵏₐₗₗ‖_F²",
    NTSR: """\
rank(∑ₗ ‖Gⁿᵗᵏₐₗₗ‖_F²)
+ rank⎛logsumexpₖ(log(width))                                    ⎞
      ⎝+ logsumexpₖ((tokens + 1) ⋅ log(width) - log(│width - 1│))⎠""",
    "div(sum(sqrt(l1_norm(mlp.act_grad))), sum(exp(neg(heads))))": """\
 ∑ₗ √‖Δₘₗₚ‖₁
──────────────
∑ₖ exp(-heads)""",
}
LATEX = {
    SNIP: r"\sum_{l} \sum_{i,j} \left|W^{\mathrm{all}}_{l} \odot G^{\mathrm{all}}_{l}\right|",
    NTKT: r"\sum_{l} \left\Vert G^{\mathrm{all},\mathrm{ntk}}_{l}\right\Vert_{F}^{2}",
    "sum(effective_rank(div(mlp.act, square(mlp.act_grad))))": (
        r"\sum_{l} \operatorname{erank}\left("
        r"\frac{A^{\mathrm{mlp}}_{l}}{\left(\Delta^{\mathrm{mlp}}_{l}\right)^{2}}\right)"
    ),
    "sum(mul(log(width), log(sub(tokens, sub(heads, one)))))": (
        r"\sum_{k} \log\left(\mathrm{width}_{k}\right) \cdot \log\left(\left|\mathrm{tokens}_{k}"
        r" - \left(\mathrm{heads}_{k} - 1\right)\right|\right)"
    ),
}


@pytest.mark.parametrize("text", PRETTY)
def test_pretty(text):
    assert pretty_formula(parse_expression(text)) == PRETTY[text]


@pytest.mark.parametrize("text", LATEX)
def test_latex(text):
    assert latex(parse_expression(text)) == LATEX[text]


def test_ascii_tree():
    assert ascii_tree(
        parse_expression("sub(sum(frobenius_norm(ones.mlp.grad)), sum(add(width, heads)))")
    ) == (
        """\
sub: Network
|-- sum: Network
|   `-- frobenius_norm: Layers[mlp]
|       `-- ones.mlp.grad: Matrix[mlp]
`-- sum: Network
    `-- add: Layers[block]
        |-- width: Layers[block]
        `-- heads: Layers[block]"""
    )


def test_legend_names_what_the_formula_holds_and_nothing_else():
    assert list(formula_legend(parse_expression(SNIP))) == ["W", "G", "ₐₗₗ", "i, j", "l"]
    assert list(formula_legend(parse_expression("sum(std(ntk.mlp.act_grad))"))) == [
        "Δ",
        "ₘₗₚ",
        "ⁿᵗᵏ",
        "i, j",
        "l",
    ]
    assert list(formula_legend(parse_expression(SEPT))) == ["k"]


def trees(count, limits):
    grammar, rng = Grammar(limits=limits), random.Random(0)
    types = sorted(grammar.least, key=str)
    return [grammar.generate(rng, types[index % len(types)]) for index in range(count)]


def test_random_trees_fit_the_page_and_matplotlib_can_draw_them():
    mathtext = MathTextParser("agg")
    for index, tree in enumerate(trees(300, TreeLimits(max_size=40, max_depth=10))):
        for width in (40, 80):
            assert max(map(len, pretty_formula(tree, width).splitlines())) <= width
        assert len(ascii_tree(tree).splitlines()) == tree.size
        if index % 5 == 0:
            mathtext.parse(f"${latex(tree)}$")


def test_displays_of_different_operations_differ():
    x, y = make_tree("msa.weight"), make_tree("msa.grad")
    layers = make_tree("mean", x), make_tree("mean", y)
    words = [
        make_tree(name, *((x, y) if "matrix" in p.levels else layers)[: p.arity])
        for name, p in PRIMITIVES.items()
        if p.levels != ("network",)
    ]
    scores = make_tree("sum", make_tree("sum", x)), make_tree("sum", make_tree("mean", y))
    networks = [make_tree(name, *scores[: p.arity]) for name, p in COMBINATORS.items()]
    shown = [*words, *networks, *map(make_tree, (*STATISTICS, *STRUCTURE))]
    for display in (pretty_formula, latex, ascii_tree, lambda tree: str(to_sympy(tree))):
        assert len({display(tree) for tree in shown}) == len(shown)


@pytest.mark.parametrize("name", ["sub", "div", "square", "sqrt", "inverse", "exp", "z_score"])
def test_deep_trees(name):
    tree = make_tree("all.weight")
    for _ in range(40):
        tree = make_tree(name, *[tree, make_tree("all.grad")][: OPERATIONS[name].arity])
    assert max(map(len, pretty_formula(tree).splitlines())) <= 80
    assert latex(tree).count("W") == 1


def test_constants_of_any_size_are_not_computed():
    tree = make_tree("one")
    for _ in range(30):
        tree = make_tree("exp", tree)
    tree = make_tree("sum", make_tree("log", make_tree("sub", tree, make_tree("exp", tree))))
    assert str(to_sympy(tree)).count("exp(") == latex(tree).count("e^") == 61
    assert "↪" in pretty_formula(tree)


AXES = {"ij": (-2, -1), "l": (-1,)}
MEANING = {
    "sum": np.sum,
    "mean": np.mean,
    "std": np.std,
    "l1_norm": lambda x, axis: np.abs(x).sum(axis),
    "frobenius_norm": lambda x, axis: np.sqrt(np.square(x).sum(axis)),
    "nuclear_norm": lambda x, axis: singular(x, axis).sum(-1),
    "logsumexp": lambda x, axis: np.log(np.exp(x).sum(axis)),
    "effective_rank": lambda x, axis: np.exp(entropy(singular(x, axis))),
    "min_max": lambda x, axis: (x - x.min(axis, keepdims=True)) / np.ptp(x, axis, keepdims=True),
    "z_score": lambda x, axis: (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True),
    "softmax": lambda x, axis: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "log_softmax": lambda x, axis: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "unit": lambda x, axis: x / np.sqrt(np.square(x).sum(axis, keepdims=True)),
    "var": np.var,
    "max": np.max,
    "min": np.min,
    "median": np.median,
    "skewness": lambda x, axis: scipy.stats.skew(flat(x, axis), -1),
    "kurtosis": lambda x, axis: scipy.stats.kurtosis(flat(x, axis), -1, fisher=False),
    "entropy": lambda x, axis: entropy(np.abs(flat(x, axis))),
    "sparsity": lambda x, axis: hoyer(flat(x, axis)),
    "spectral_norm": lambda x, axis: singular(x, axis).max(-1),
    "stable_rank": lambda x, axis: 1 / shares(singular(x, axis) ** 2).max(-1),
    "participation_ratio": lambda x, axis: 1 / (shares(singular(x, axis) ** 2) ** 2).sum(-1),
    "log_det": lambda x, axis: np.log(1 + singular(x, axis) ** 2).sum(-1),
    "last": lambda x, axis: x[..., -1],
    "cumulative_sum": lambda x, axis: np.cumsum(x, -1),
    "difference": lambda x, axis: np.concatenate([[0], x[1:] - x[:-1]]),
    "dot": lambda x, y, axis: (x * y).sum(axis),
    "cosine": lambda x, y, axis: cosine(flat(x, axis), flat(y, axis)),
    "distance": lambda x, y, axis: np.sqrt(((x - y) ** 2).sum(axis)),
    "correlation": lambda x, y, axis: cosine(centred(flat(x, axis)), centred(flat(y, axis))),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": lambda x, y: np.abs(x) ** y,
    "log1p": lambda x: np.log(1 + np.abs(x)),
    "cbrt": np.cbrt,
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "heaviside": lambda x: (x > 0) * 1.0,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def singular(x, axis):
    return np.linalg.svd(x if len(axis) == 2 else x[..., None], compute_uv=False)


def entropy(values):
    return -(shares(values) * np.log(shares(values))).sum(-1)


def shares(values):
    return values / values.sum(-1, keepdims=True)


def flat(x, axis):
    return x.reshape(*x.shape[: x.ndim - len(axis)], -1)


def centred(x):
    return x - x.mean(-1, keepdims=True)


def cosine(x, y):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def hoyer(x):
    root = np.sqrt(x.shape[-1])
    return (root - np.abs(x).sum(-1) / np.sqrt((x * x).sum(-1))) / (root - 1)


TEXTS = {
    "matrix": ("msa.weight", "msa.grad"),
    "layers": ("std(msa.weight)", "mean(msa.grad)"),
}


@pytest.mark.parametrize(
    ("name", "level"),
    [(name, level) for name, p in PRIMITIVES.items() for level in TEXTS if level in p.levels],
)
def test_the_sympy_form_means_what_is_computed(name, level):
    tree = make_tree(name, *map(parse_expression, TEXTS[level][: PRIMITIVES[name].arity]))
    while tree.type != NETWORK:
        tree = make_tree("l1_norm", tree)
    rng = np.random.default_rng(0)
    arrays = {"W_msa": rng.normal(size=(6, 3, 4)), "G_msa": rng.normal(size=(6, 3, 4))}
    form = sympy.lambdify([*arrays, *AXES], to_sympy(tree), modules=[MEANING, "numpy"])
    expected = form(*arrays.values(), *AXES.values())
    np.testing.assert_allclose(computed(tree, arrays), expected, rtol=1e-9)


def computed(tree, arrays):
    def visit(node, args):
        if not args:
            letter = {"weight": "W", "grad": "G"}[node.symbol.split(".")[-1]]
            return torch.from_numpy(arrays[f"{letter}_msa"])
        level = node.args[0].type.level.lower()
        return apply_primitive(OPERATIONS[node.symbol], args, level)

    return tree.fold(visit).item()


def test_the_sympy_form_compares_by_meaning():
    def form(text):
        return to_sympy(parse_expression(text)).doit()

    assert form(SNIP) == form("sum(sum(abs(mul(all.grad, all.weight))))")
    assert form("sum(l1_norm(msa.grad))") != form("sum(l1_norm(mlp.grad))")
    assert form("sum(l1_norm(msa.grad))") != form("sum(l1_norm(ones.msa.grad))")
    assert form("sum(softmax(sum(msa.grad)))") != form("sum(sum(softmax(msa.grad)))")
    assert form("sum(sub(width, sub(width, heads)))") == form("sum(heads)")


def test_sympys_own_latex_knows_the_operations():
    form = to_sympy(parse_expression("square(frobenius_norm(msa.grad))"))
    assert sympy.latex(form) == r"\left(\left\Vert G_{msa}\right\Vert_{F}\right)^{2}"
