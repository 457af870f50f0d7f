from collections.abc import Callable

import numpy as np
import pytest
from naive import Array, naive_evaluate, random_world
from scipy.stats import rankdata

from autoprox.language import LanguageError, parse, require_network
from autoprox.proxies import PROXIES, load_expression

WORLD = random_world(seed=21, networks=6)


def over_layers(term: Callable[..., float], *names: str) -> Array:
    """The sum of a term over the layers of each network."""
    networks = zip(*(WORLD[name] for name in names), strict=True)
    return np.array([sum(map(term, *network)) for network in networks])


def saliency(weight: Array, grad: Array) -> float:
    return float((weight * grad).sum())


def diversity(weight: Array, grad: Array) -> float:
    return float(np.linalg.norm(weight, "nuc") * np.linalg.norm(grad, "nuc"))


def sept() -> Array:
    """ln of the sum over the blocks of d, and of d^(n + 1) / (d - 1)."""
    described = zip(WORLD["width"], WORLD["tokens"], strict=True)
    return np.array(
        [np.log(d.sum()) + np.log((d ** (n + 1) / (d - 1)).sum()) for d, n in described]
    )


def ntkt() -> Array:
    return over_layers(lambda grad: (grad**2).sum(), "ntk.all.grad")


msa = over_layers(diversity, "ones.msa.weight", "ones.msa.grad")
mlp = over_layers(saliency, "ones.mlp.weight", "ones.mlp.grad")
EXPECTED = {
    "plain": over_layers(saliency, "all.weight", "all.grad"),
    "grad_norm": over_layers(np.linalg.norm, "all.grad"),
    "l2_norm": over_layers(np.linalg.norm, "all.weight"),
    "snip": over_layers(lambda w, g: np.abs(w * g).sum(), "all.weight", "all.grad"),
    "synflow": over_layers(saliency, "ones.all.weight", "ones.all.grad"),
    "dss": msa + mlp,
    "dss++": rankdata(msa) + rankdata(mlp),
    "ntkt": ntkt(),
    "sept": sept(),
    "ntsr": rankdata(ntkt()) + rankdata(sept()),
}


@pytest.mark.parametrize("name", PROXIES)
def test_each_proxy_is_its_formula(name: str) -> None:
    tree = require_network(load_expression(name))
    np.testing.assert_allclose(naive_evaluate(tree, WORLD), EXPECTED[name], rtol=1e-10)


def test_an_expression_may_use_the_zoo() -> None:
    assert load_expression("sum(sum(msa.grad))") == parse("sum(sum(msa.grad))")
    assert load_expression("rank(snip)") == parse("rank(sum(sum(abs(mul(all.weight, all.grad)))))")


def test_an_unknown_proxy_is_refused_with_the_nearest() -> None:
    with pytest.raises(LanguageError, match=r"unknown name `dss\+`; nearest: `dss\+\+`, `dss`"):
        load_expression("dss+")
