"""How measures share passes, what they leave behind, and whom they refuse."""

import re

import numpy as np
import pytest
import torch
from helpers.networks import SPACE, everything, noise, prepared, tiny
from torch import Tensor, nn
from torch.nn import functional

from autoprox.inputs.batch import Batch
from autoprox.searchspaces import TransformerNetwork
from autoprox.searchspaces.transformer import EncoderBlock
from autoprox.zoo import EXPRESSION_PROXIES, ProxyError
from autoprox.zoo.functions import (
    FUNCTION_PROXIES,
    FunctionProxyError,
    SharedNetworkPasses,
    measure_function_proxies,
    register_function,
)
from autoprox.zoo.functions.shared_network_passes import SHARED_PASSES, UnfusedAttention

ARCH = tiny(8, (2, 2.0), (1, 1.0))
BATCH = noise(4, size=3)


@pytest.fixture
def network() -> TransformerNetwork:
    return SPACE.build(ARCH, classes=4, seed=1)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_the_network_is_left_as_it_was_found(
    network: TransformerNetwork, name: str, grad: bool
) -> None:
    inputs, labels = BATCH.inputs.clone(), BATCH.labels.clone()
    expected = FUNCTION_PROXIES[name].function(SharedNetworkPasses(network, BATCH))
    with torch.set_grad_enabled(grad):
        before = list(everything(prepared(network)))
        assert FUNCTION_PROXIES[name].function(SharedNetworkPasses(network, BATCH)) == expected
        assert list(everything(network)) == before
    assert torch.equal(BATCH.inputs, inputs)
    assert torch.equal(BATCH.labels, labels)
    assert not BATCH.inputs.requires_grad


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_the_network_is_left_as_it_was_found_by_a_pass_that_fails(
    network: TransformerNetwork, name: str
) -> None:
    def fail(*seen: object) -> None:
        raise RuntimeError("broken layer")

    network.head.register_forward_hook(fail)
    before = list(everything(prepared(network)))
    with pytest.raises(RuntimeError, match="broken layer"):
        measure_function_proxies(network, BATCH, [name])
    assert list(everything(network)) == before


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_a_measure_needs_what_it_says(network: TransformerNetwork, name: str) -> None:
    passes = SharedNetworkPasses(network, BATCH)
    FUNCTION_PROXIES[name].function(passes)
    used = {shared for shared in SHARED_PASSES if shared in vars(passes)}
    assert used == FUNCTION_PROXIES[name].needs


def test_shared_passes_are_run_once(
    network: TransformerNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwards: list[object] = []
    backwards: list[object] = []
    grad = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd, "grad", lambda *args, **kw: backwards.append(args) or grad(*args, **kw)
    )
    network.register_forward_hook(lambda *seen: forwards.append(seen))
    measure_function_proxies(
        network,
        BATCH,
        [n for n in FUNCTION_PROXIES if FUNCTION_PROXIES[n].needs and n != "croze"],
    )
    blocks = ARCH["depth"]  # one backward pass through each for az-nas-trainability
    assert (len(forwards), len(backwards)) == (1, 2 + blocks)
    measure_function_proxies(network, BATCH, list(FUNCTION_PROXIES))
    own = {"grasp": (1, 2), "naswot": (1, 0), "ld": (3, 0), "croze": (2, 2)}
    own["az-nas-complexity"] = (1, 0)
    assert (len(forwards), len(backwards)) == (
        2 + sum(passes for passes, _ in own.values()),
        2 * (2 + blocks) + sum(passes for _, passes in own.values()),
    )


def test_together_as_alone(network: TransformerNetwork) -> None:
    together = measure_function_proxies(network, BATCH, list(FUNCTION_PROXIES), seed=5)
    assert list(together) == list(FUNCTION_PROXIES)
    for name, value in together.items():
        assert measure_function_proxies(network, BATCH, [name], seed=5) == {name: value}
    assert measure_function_proxies(network, BATCH, ["mgm", "grasp"]) == {
        name: together[name] for name in ("mgm", "grasp")
    }
    assert measure_function_proxies(network, BATCH, []) == {}


def test_no_shared_pass_is_kept_during_others(
    network: TransformerNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[set[str]] = []
    loss = SharedNetworkPasses.loss

    def observed(passes: SharedNetworkPasses, weights: dict[str, Tensor]) -> Tensor:
        kept.append(set(vars(passes)) & set(SHARED_PASSES))
        return loss(passes, weights)

    monkeypatch.setattr(SharedNetworkPasses, "loss", observed)
    measure_function_proxies(network, BATCH, list(FUNCTION_PROXIES))
    assert kept == [set()]


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_only_measures_of_the_trunk_ignore_head_and_labels(
    network: TransformerNetwork, name: str
) -> None:
    before = measure_function_proxies(network, BATCH, [name])
    other = Batch(BATCH.inputs, torch.tensor([0, 4, 2]), 5, "")
    network.reset_head(5, seed=8)
    assert (measure_function_proxies(network, other, [name]) == before) == FUNCTION_PROXIES[
        name
    ].trunk


def test_only_curve_and_redrawn_weights_are_random(network: TransformerNetwork) -> None:
    one, other = (
        measure_function_proxies(network, BATCH, list(FUNCTION_PROXIES), seed=seed)
        for seed in (0, 1)
    )
    assert [name for name in FUNCTION_PROXIES if one[name] != other[name]] == [
        *("naswot", "az-nas-trainability", "ld"),
    ]


def test_a_pass_mixes_no_devices() -> None:
    with torch.device("meta"):
        network = SPACE.build(ARCH, classes=4)
    passes = SharedNetworkPasses(network, BATCH)
    found = [*passes.loss_gradients, *passes.weight_gradients, *passes.sample_gradients()]
    found += [passes.logit_gradients[1], passes.features(passes.source)]
    found.append(passes.loss(passes.weights()))
    assert {tensor.device.type for tensor in found} == {"meta"}


class Windows(EncoderBlock):
    """A block that sees each sample in four parts."""

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, tokens, width] to tokens of the same shape."""
        rest, tokens = x[:, :1], x[:, 1:].unflatten(1, (4, -1))
        return torch.cat([rest, super().forward(tokens.flatten(0, 1)).view_as(x[:, 1:])], 1)


def test_a_layer_may_see_a_sample_in_parts(network: TransformerNetwork) -> None:
    block = Windows(SPACE.blocks(ARCH)[1])
    block.load_state_dict(network.blocks[1].state_dict())
    network.blocks[1] = block
    *_, found = SharedNetworkPasses(network, BATCH).sample_gradients()
    for sample, (image, label) in enumerate(zip(BATCH.inputs, BATCH.labels, strict=True)):
        loss = functional.cross_entropy(network(image[None]), label[None])
        (expected,) = torch.autograd.grad(loss, block.fc2.weight)
        assert (found[sample] - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize(
    ("options", "dtype"),
    [({}, None), ({"is_causal": True}, None), ({"scale": 0.3}, None)]
    + [({}, dtype) for dtype in (torch.bool, torch.float32)],
)
def test_explicit_attention_is_the_fused_one(
    options: dict[str, object], dtype: torch.dtype | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, generator=generator) for _ in range(3))
    mask = torch.randn(2, 1, 5, 5, generator=generator)
    arguments = (query, key, value) if dtype is None else (query, key, value, mask.to(dtype))
    if dtype is torch.bool:
        arguments = (query, key, value, mask > -1)
    expected = functional.scaled_dot_product_attention(*arguments, **options)
    with UnfusedAttention():
        found = functional.scaled_dot_product_attention(*arguments, **options)
    torch.testing.assert_close(found, expected)


COMPARE_SAMPLES = ("zico", "gradsign", "te-nas", "naswot", "jacobian", "swap", "l-swag")


@pytest.mark.parametrize("name", COMPARE_SAMPLES)
def test_one_sample_is_not_enough_to_compare(network: TransformerNetwork, name: str) -> None:
    rule = f"{name} compares samples: the batch must have at least 2, but has 1"
    with pytest.raises(FunctionProxyError, match=rule):
        measure_function_proxies(network, noise(4, size=1), [name])


def test_the_others_take_one_sample(network: TransformerNetwork) -> None:
    names = set(FUNCTION_PROXIES) - set(COMPARE_SAMPLES)
    values = measure_function_proxies(network, noise(4, size=1), sorted(names))
    assert np.isfinite(list(values.values())).all()


class Unnamed(EncoderBlock):
    """A block whose heads have their projections under another name."""

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """Its MLP's alone."""
        return [("mlp", self.fc1), ("mlp", self.fc2)]


def test_confidence_needs_the_projections_of_heads(network: TransformerNetwork) -> None:
    for index, shape in enumerate(SPACE.blocks(ARCH)):
        block = Unnamed(shape)
        block.load_state_dict(network.blocks[index].state_dict())
        network.blocks[index] = block
    rule = (
        "head_confidence needs linear layers named q, kv, qkv, .* but this AutoFormerNano has none"
    )
    with pytest.raises(FunctionProxyError, match=rule):
        measure_function_proxies(network, BATCH, ["head_confidence"])
    others = measure_function_proxies(
        network, BATCH, [n for n in FUNCTION_PROXIES if n != "head_confidence"]
    )
    assert np.isfinite(list(others.values())).all()


def test_a_network_that_is_not_finite_has_no_values(network: TransformerNetwork) -> None:
    network.blocks[0].fc1.weight.data[0, 0] = torch.nan
    found = measure_function_proxies(network, BATCH, list(FUNCTION_PROXIES))
    assert np.isfinite(found.pop("naswot"))  # of weights drawn anew
    assert np.isfinite(found.pop("az-nas-complexity"))  # of sizes alone
    assert np.isnan(list(found.values())).all()


def test_an_unknown_measure_is_refused_with_the_nearest(network: TransformerNetwork) -> None:
    message = re.escape("unknown measure 'naswott' (did you mean naswot?); choose from")
    with pytest.raises(FunctionProxyError, match=message):
        measure_function_proxies(network, BATCH, ["mgm", "naswott"])


def test_a_name_is_registered_once_and_its_needs_exist() -> None:
    with pytest.raises(ProxyError, match="the name of a new proxy must be new, but got 'zico'"):
        register_function("zico", "Somebody, 2020", "")(FUNCTION_PROXIES["zico"].function)
    function = FUNCTION_PROXIES["zico"].function
    with pytest.raises(
        FunctionProxyError, match=r"novel must need passes of forward, .* got hessian"
    ):
        register_function("novel", "", "", needs=("forward", "hessian"))(function)
    assert "novel" not in FUNCTION_PROXIES


def test_each_measure_is_described_and_has_a_name_of_its_own() -> None:
    assert not set(FUNCTION_PROXIES) & set(EXPRESSION_PROXIES)
    for name, measure in FUNCTION_PROXIES.items():
        assert measure.name == name
        assert re.search(r"\b20[12]\d\b", measure.citation)
        assert len(measure.equation) > 10
        assert measure.function.__doc__
