"""The registry of published proxies, and those of them that are expressions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autoprox.errors import AutoproxError
from autoprox.language import Tree, parse_expression
from autoprox.registry import Registry, View
from autoprox.zoo.prior_file import read_prior_file

ABDELFATTAH = "Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021"
AUTO_PROX_PAPER = (
    "Wei et al., Auto-Prox: Training-Free Vision Transformer Architecture Search via Automatic "
    "Proxy Discovery, AAAI 2024"
)
FISHER = (
    "Theis et al., Faster gaze prediction with dense networks and Fisher pruning, 2018; as a "
    f"score: {ABDELFATTAH}"
)
SNIP = "Lee et al., SNIP: Single-shot Network Pruning based on Connection Sensitivity, ICLR 2019"
SYNFLOW = (
    "Tanaka et al., Pruning neural networks without any data by iteratively conserving synaptic "
    "flow, NeurIPS 2020"
)
TF_TAS = "Zhou et al., Training-free Transformer Architecture Search, CVPR 2022"
T_RAZOR = (
    "Zhou et al., Training-Free Transformer Architecture Search With Zero-Cost Proxy Guided "
    "Evolution, TPAMI 2024"
)
ETAS = (
    "Yang and Liu, ETAS: Zero-Shot Transformer Architecture Search via Network Trainability and "
    "Expressivity, Findings of ACL 2024"
)
PROXY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


class ProxyError(AutoproxError):
    """A proxy that breaks a rule of the registry, or that a command can't use."""


@dataclass(frozen=True)
class PublishedProxy:
    """The record of a proxy: the paper that it comes from."""

    citation: str


def _prove(name: str, proxy: PublishedProxy) -> None:
    if not isinstance(proxy, PublishedProxy) or not proxy.citation:
        raise ProxyError(f"a proxy is a record with a citation, but {name} is {proxy!r}")
    if not PROXY_NAME.fullmatch(name):
        raise ProxyError(f"a proxy's name is a letter, then letters, digits, _ + -, got {name!r}")


PROXIES: Registry[PublishedProxy] = Registry("proxies", "proxy", ProxyError, _prove)


@dataclass(frozen=True)
class ExpressionProxy(PublishedProxy):
    """A proxy that is an expression, which may use others by name."""

    expression: str


EXPRESSION_PROXIES: Mapping[str, ExpressionProxy] = View(
    PROXIES, lambda: {name: p for name, p in PROXIES.items() if isinstance(p, ExpressionProxy)}
)


def register_expression(name: str, expression: str, citation: str) -> None:
    PROXIES.register(name, ExpressionProxy(citation, expression))


register_expression("plain", "sum(sum(mul(all.weight, all.grad)))", ABDELFATTAH)
register_expression("grad_norm", "sum(frobenius_norm(all.grad))", ABDELFATTAH)
register_expression("l2_norm", "sum(frobenius_norm(all.weight))", f"{ABDELFATTAH} (its code)")
register_expression("snip", "sum(sum(abs(mul(all.weight, all.grad))))", SNIP)
register_expression("synflow", "sum(sum(abs(mul(ones.net.weight, ones.net.grad))))", SYNFLOW)
register_expression("fisher", "sum(sum(square(mul(mlp.act, mlp.act_grad))))", FISHER)
register_expression(
    "dss",
    "add(sum(mul(nuclear_norm(ones.diverse.grad), nuclear_norm(ones.diverse.weight))), "
    "sum(sum(abs(mul(ones.salient.grad, ones.salient.weight)))))",
    TF_TAS,
)
register_expression(
    "dss++",
    "add(rank(sum(mul(nuclear_norm(ones.diverse.grad), nuclear_norm(ones.diverse.weight)))), "
    "rank(sum(sum(abs(mul(ones.salient.grad, ones.salient.weight))))))",
    T_RAZOR,
)
# T, the length of the last block's output, is the least of the blocks' lengths.
_LENGTH = "sum(mul(tokens, softmax(neg(tokens))))"
register_expression(
    "ntkt",
    f"div(div(sum(square(frobenius_norm(ntk.all.grad))), {_LENGTH}), {_LENGTH})",
    f"{ETAS}, eq. 13",
)
register_expression(
    "sept",
    "add(logsumexp(log(width)), "
    "logsumexp(sub(mul(add(tokens, one), log(width)), log(sub(width, one)))))",
    ETAS,
)
register_expression("ntsr", "add(rank(ntkt), rank(sept))", ETAS)
register_expression(
    "autoprox-a",
    "add(sum(l1_norm(qkv.grad)), sum(mean(sigmoid(mlp.grad))))",
    f"{AUTO_PROX_PAPER}, eq. 2, summed over the layers",
)
register_expression(
    "autoprox-p",
    "sub(mean(frobenius_norm(sigmoid(qkv.weight))), mean(mean(log_softmax(abs(mlp.weight)))))",
    f"{AUTO_PROX_PAPER}, eq. 3, the mean over layers and elements",
)
# The authors' code leaves some choices open, made here so: the weights are those of all linear
# layers, the gradients of activations those of the outputs of the MLPs' linear layers, a matrix
# that isn't yet one number is replaced by its mean, and layers are added up.
register_expression(
    "autoprox-a-released",
    "add(sum(frobenius_norm(min_max(all.weight))), sum(mean(sqrt(sigmoid(mlp.act_grad)))))",
    f"{AUTO_PROX_PAPER}, as in the configurations of its code",
)
register_expression(
    "autoprox-p-released",
    "sub(sum(frobenius_norm(all.weight)), sum(log(mean(abs(mlp.act_grad)))))",
    f"{AUTO_PROX_PAPER}, as in the code of PicoNAS",
)

for _name, _group in read_prior_file().groups.items():
    register_expression(
        _name,
        _group.every.expression,
        "autoprox: a power law that was fitted to the true scores of these tables: "
        f"{', '.join(map(str, _group.every.tables))}. Its taus on them don't test it",
    )


def parse_with_zoo_names(name_or_text: str) -> Tree:
    """The tree of a proxy of the zoo, or of an expression that may use them by name."""
    return parse_expression(
        name_or_text, {name: proxy.expression for name, proxy in EXPRESSION_PROXIES.items()}
    )
