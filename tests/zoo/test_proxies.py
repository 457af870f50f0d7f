"""Published proxies: their formulas on any numbers, and their values on networks in plain torch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions, streamed
from helpers.naive import Array, naive_evaluate, random_world
from helpers.networks import SPACE, noise, tiny
from scipy.special import log_softmax
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn import functional

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.language import LanguageError, parse_expression, require_complete_proxy
from autoprox.searchspaces import Architecture
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names
from autoprox.zoo.prior_file import read_prior_file

WORLD = random_world(seed=21, networks=6)


def over_layers(term: Callable[..., float], *names: str) -> Array:
    """The sum of a term over the layers of each network."""
    networks = zip(*(WORLD[name] for name in names), strict=True)
    return np.array([sum(map(term, *network)) for network in networks])


def saliency(weight: Array, grad: Array) -> float:
    return float(np.abs(weight * grad).sum())


def diversity(weight: Array, grad: Array) -> float:
    return float(np.linalg.norm(weight, "nuc") * np.linalg.norm(grad, "nuc"))


def sept() -> Array:
    """ln of the sum over the blocks of d, and of d^(n + 1) / (d - 1)."""
    described = zip(WORLD["width"], WORLD["tokens"], strict=True)
    return np.array(
        [np.log(d.sum()) + np.log((d ** (n + 1) / (d - 1)).sum()) for d, n in described]
    )


def ntkt() -> Array:
    lengths = np.array([min(tokens) for tokens in WORLD["tokens"]])
    return over_layers(lambda grad: (grad**2).sum(), "ntk.all.grad") / lengths**2


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def autoprox_a() -> Array:
    qkv = over_layers(lambda g: np.abs(g).sum(), "qkv.grad")
    return qkv + over_layers(lambda g: sigmoid(g).mean(), "mlp.grad")


def autoprox_p() -> Array:
    counts = np.array([len(qkv) for qkv in WORLD["qkv.weight"]])
    qkv = over_layers(lambda w: np.sqrt((sigmoid(w) ** 2).sum()), "qkv.weight")
    mlp = over_layers(lambda w: log_softmax(np.abs(w), axis=-1).mean(), "mlp.weight")
    return qkv / counts - mlp / (2 * counts)


def autoprox_a_released() -> Array:
    weights = over_layers(lambda w: np.linalg.norm((w - w.min()) / np.ptp(w)), "all.weight")
    return weights + over_layers(lambda d: np.sqrt(1 / (1 + np.exp(-d))).mean(), "mlp.act_grad")


def autoprox_p_released() -> Array:
    weights = over_layers(np.linalg.norm, "all.weight")
    return weights - over_layers(lambda d: np.log(np.abs(d).mean()), "mlp.act_grad")


msa = over_layers(diversity, "ones.diverse.weight", "ones.diverse.grad")
mlp = over_layers(saliency, "ones.salient.weight", "ones.salient.grad")
EXPECTED = {
    "plain": over_layers(lambda w, g: (w * g).sum(), "all.weight", "all.grad"),
    "grad_norm": over_layers(np.linalg.norm, "all.grad"),
    "l2_norm": over_layers(np.linalg.norm, "all.weight"),
    "snip": over_layers(saliency, "all.weight", "all.grad"),
    "synflow": over_layers(saliency, "ones.net.weight", "ones.net.grad"),
    "fisher": over_layers(lambda a, d: ((a * d) ** 2).sum(), "mlp.act", "mlp.act_grad"),
    "dss": msa + mlp,
    "dss++": rankdata(msa) + rankdata(mlp),
    "ntkt": ntkt(),
    "sept": sept(),
    "ntsr": rankdata(ntkt()) + rankdata(sept()),
    "autoprox-a": autoprox_a(),
    "autoprox-p": autoprox_p(),
    "autoprox-a-released": autoprox_a_released(),
    "autoprox-p-released": autoprox_p_released(),
}


# A ready-made proxy is what was fitted, so that nothing else says what it should be.
PUBLISHED = [name for name in EXPRESSION_PROXIES if name not in read_prior_file().groups]


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_proxy_is_its_formula(name: str) -> None:
    tree = require_complete_proxy(parse_with_zoo_names(name))
    np.testing.assert_allclose(naive_evaluate(tree, WORLD), EXPECTED[name], rtol=1e-10)


def test_an_expression_may_use_the_zoo() -> None:
    assert parse_with_zoo_names("sum(sum(msa.grad))") == parse_expression("sum(sum(msa.grad))")
    assert parse_with_zoo_names("rank(snip)") == parse_expression(
        "rank(sum(sum(abs(mul(all.weight, all.grad)))))"
    )


def test_an_unknown_proxy_is_refused_with_the_nearest() -> None:
    with pytest.raises(LanguageError, match=r"unknown name `dss\+`; nearest: `dss\+\+`, `dss`"):
        parse_with_zoo_names("dss+")


ARCHITECTURES = [
    tiny(8, (1, 2.0), (2, 1.0), (1, 1.0)),
    tiny(9, (2, 2.0), (1, 1.0)),
    tiny(12, (1, 1.0), (2, 3.0)),
]
BATCH = noise(4, size=3)
SETTING = Conditions(SPACE, {"data": BATCH}, seed=2)


def scored(names: list[str], setting: Conditions = SETTING) -> Array:
    """The scores [proxies, networks] of the whole program."""
    engine = TreeEvaluator(streamed(setting, ARCHITECTURES, 1))
    return engine.evaluate(map(parse_with_zoo_names, names)).values[:, 0]


Matrices = dict[str, list[Tensor]]


def passed(
    arch: Architecture,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor = BATCH.inputs,
    absolute: bool = False,
) -> Matrices:
    """Weights w and gradients g of the linear layers, activations a and d, as float64.

    The loss is a function of the logits and of the last block's output. The pass is in float32 as
    the program's own: sums under the `ones` probe cancel, and rounding is much of what remains.
    """
    network = SPACE.build(arch, BATCH.classes, SETTING.network_seed(arch))
    outputs: list[Tensor] = []
    last: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
        output.retain_grad()
        outputs.append(output)

    for block in network.blocks:
        block.fc1.register_forward_hook(keep)
        block.fc2.register_forward_hook(keep)
    network.blocks[-1].register_forward_hook(lambda *seen: last.append(seen[2]))
    if absolute:
        for parameter in network.parameters():
            parameter.data.abs_()
    loss(network(inputs), last[0]).backward()
    found: Matrices = {"a": outputs, "d": [output.grad for output in outputs]}
    kinds = {"msa": ("qkv", "proj"), "mlp": ("fc1", "fc2"), "qkv": ("qkv",)}
    layers = {
        kind: [getattr(block, name) for block in network.blocks for name in names]
        for kind, names in kinds.items()
    }
    layers["head"] = [network.head]
    layers["every"] = [m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    for kind, own in layers.items():
        found[f"{kind}.w"] = [layer.weight for layer in own]
        found[f"{kind}.g"] = [layer.weight.grad for layer in own if layer.weight.grad is not None]
    for letter in "wg":
        found[letter] = found[f"msa.{letter}"] + found[f"mlp.{letter}"]
    return {name: [matrix.detach().double() for matrix in found[name]] for name in found}


def total(term: Callable[..., Tensor], *lists: list[Tensor]) -> float:
    return sum(float(term(*layer)) for layer in zip(*lists, strict=True))


def nuclear(matrix: Tensor) -> Tensor:
    return torch.linalg.svdvals(matrix).sum()


def plain(arch: Architecture) -> dict[str, float]:
    """The proxies of one network, from the equations of their papers; parts, where they rank."""
    data = passed(arch, lambda logits, _: functional.cross_entropy(logits, BATCH.labels))
    ones = passed(arch, lambda y, _: y.sum(), torch.ones(1, *SPACE.input_shape), absolute=True)
    drawn = torch.Generator().manual_seed(SETTING.network_seed(arch))
    signs = torch.randint(0, 2, (3, 17, arch["hidden_dim"]), generator=drawn) * 2 - 1
    ntk = passed(arch, lambda _, last: (last * signs).sum())
    diversity = total(lambda g, w: nuclear(g) * nuclear(w), ones["msa.g"], ones["msa.w"])
    saliency = sum(
        total(lambda g, w: (g * w).abs().sum(), ones[f"{kind}.g"], ones[f"{kind}.w"])
        for kind in ("mlp", "head")
    )
    d, n = torch.tensor(float(arch["hidden_dim"]), dtype=torch.float64), 17
    blocks = arch["depth"]
    return {
        "plain": total(lambda w, g: (w * g).sum(), data["w"], data["g"]),
        "grad_norm": total(torch.linalg.norm, data["g"]),
        "l2_norm": total(torch.linalg.norm, data["w"]),
        "snip": total(lambda w, g: (w * g).abs().sum(), data["w"], data["g"]),
        "synflow": total(lambda w, g: (w * g).abs().sum(), ones["every.w"], ones["every.g"]),
        "fisher": total(lambda a, d: (a * d).square().sum(), data["a"], data["d"]),
        "diversity": diversity,
        "saliency": saliency,
        "dss": diversity + saliency,
        "ntkt": total(lambda g: g.square().sum(), ntk["g"]) / n**2,
        "sept": float((blocks * d).log() + (blocks * d ** (n + 1) / (d - 1)).log()),
        "autoprox-a": total(lambda g: g.abs().sum(), data["qkv.g"])
        + total(lambda g: g.sigmoid().mean(), data["mlp.g"]),
        "autoprox-p": total(lambda w: w.sigmoid().square().sum().sqrt(), data["qkv.w"]) / blocks
        - total(lambda w: w.abs().log_softmax(-1).mean(), data["mlp.w"]) / (2 * blocks),
        "autoprox-a-released": total(
            lambda w: torch.linalg.norm((w - w.min()) / (w.max() - w.min())), data["w"]
        )
        + total(lambda d: d.sigmoid().sqrt().mean(), data["d"]),
        "autoprox-p-released": total(torch.linalg.norm, data["w"])
        - total(lambda d: d.abs().mean().log(), data["d"]),
    }


def test_each_proxy_on_networks() -> None:
    parts = [plain(arch) for arch in ARCHITECTURES]
    expected = {name: np.array([values[name] for values in parts]) for name in parts[0]}
    for name, pair in (("dss++", ("diversity", "saliency")), ("ntsr", ("ntkt", "sept"))):
        expected[name] = sum(rankdata(expected[part]) for part in pair)
    for name, values in zip(PUBLISHED, scored(PUBLISHED), strict=True):
        np.testing.assert_allclose(values, expected[name], rtol=1e-5, err_msg=name)


def test_dss_does_not_depend_on_the_data() -> None:
    """T-Razor, table XII; the weights stay the same."""
    names = ["dss", "dss++", "synflow", "sept"]
    first, other = (
        Conditions(SPACE, {"data": noise(4, size=3, seed=seed)}, seed=2) for seed in (0, 1)
    )
    assert np.array_equal(scored(names, first), scored(names, other))
    assert (scored(["snip"], first) != scored(["snip"], other)).all()
