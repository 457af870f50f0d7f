"""Shared draws: one draw for all networks of a space, of which each takes slices."""

import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn

from autoprox.language import EVERY_STATISTIC
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.searchspaces import SPACES, Architecture, shared_draws
from autoprox.searchspaces.shared_draws import (
    KeptDraws,
    NetworkRoles,
    SharedDraws,
    endless_draw,
    made_with_shared_draws,
    parameter_roles,
    shared_network,
)
from autoprox.statistics.sliced_networks import LAYERS_PER_BLOCK, SlicedNetwork, cut_slice
from autoprox.statistics.untrained_networks import SpaceNetwork, layers_with_domains

SUPERNET = SPACES["autoformer-supernet-ti"]
CLASSES = 10


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> KeptDraws:
    """Each test begins without draws."""
    kept = KeptDraws(2**28)
    monkeypatch.setattr(shared_draws, "KEPT", kept)
    return kept


def drawn(space: str, number: int) -> Architecture:
    return SPACES[space].sample(random.Random(number))


def correlation(one: Tensor, other: Tensor) -> float:
    return float(np.corrcoef(one.detach().flatten(), other.detach().flatten())[0, 1])


@pytest.mark.parametrize(("kind", "law"), [("normal_", "norm"), ("uniform_", "uniform")])
def test_an_endless_draw_has_its_law_and_no_end(kind: str, law: str) -> None:
    large = endless_draw("key", kind, (130, 70))
    assert kstest(large.flatten().numpy(), law).pvalue > 0.01
    assert large.unique().numel() > 0.99 * large.numel()
    for shape in ((130, 70), (1, 1), (2, 70), (3, 5), (64, 33), (129, 1), (100, 64)):
        assert torch.equal(endless_draw("key", kind, shape), large[: shape[0], : shape[1]])
    other = endless_draw("another", kind, (130, 70))
    assert abs(correlation(large, other)) < 0.05


@pytest.mark.parametrize("number", range(2))
def test_a_network_of_autoformers_supernet_is_a_slice_of_the_largest(number: int) -> None:
    """Bit for bit what the supernet itself cuts out."""
    supernet, arch = Supernet(SUPERNET, CLASSES), drawn(SUPERNET.name, number)
    largest = shared_network(SUPERNET, SUPERNET.largest(), CLASSES, seed=4)
    for block in largest.transformer_blocks:
        block.reorder(True)
    supernet.network.load_state_dict(largest.state_dict())
    expected = supernet.extract(arch).state_dict()
    found = SpaceNetwork(SUPERNET, arch, 4, shared=True).build(torch.device("cpu"))(CLASSES)
    assert all(torch.equal(value, expected[name]) for name, value in found.state_dict().items())
    assert found.state_dict().keys() == expected.keys()


@pytest.mark.parametrize("name", ["autoformer-nano", "swin-nano", "bignas-nano"])
def test_entangled_spaces_slice_as_their_supernets(name: str) -> None:
    """But for the scale, which may depend on a layer's inputs."""
    space, arch = SPACES[name], drawn(name, 3)
    supernet = Supernet(space, CLASSES)
    largest = shared_network(space, space.largest(), CLASSES)
    for block in largest.transformer_blocks:
        block.reorder(True)
    supernet.network.load_state_dict(largest.state_dict())
    expected, found = supernet.extract(arch), shared_network(space, arch, CLASSES)
    for (parameter, value), other in zip(
        found.named_parameters(), expected.parameters(), strict=True
    ):
        if value.std() > 0:
            assert correlation(value, other) > 0.9999, parameter
        else:
            assert torch.equal(value, other), parameter


@pytest.mark.parametrize("name", ["pit-nano", "gpt2-nano", "autoformer-nano"])
def test_slices_are_those_of_inherited_weights(name: str) -> None:
    """The slices of `search --weights inherited`, but for the scale."""
    space = SPACES[name]
    largest = shared_network(space, space.largest(), CLASSES)
    for number in range(3):
        arch = drawn(name, number)
        own = layers_with_domains(shared_network(space, arch, CLASSES))
        for domain in LAYERS_PER_BLOCK:
            statistic = replace(EVERY_STATISTIC["msa.weight"], domain=domain)
            parents = [layer for kind, layer in layers_with_domains(largest) if kind == domain]
            layers = [layer for kind, layer in own if kind == domain]
            slices = SlicedNetwork(space, arch).slices(domain)
            for layer, part in zip(layers, slices, strict=True):
                cut = cut_slice(parents[part[0]].weight, statistic, part)
                assert correlation(layer.weight, cut) > 0.9999


def test_places_do_not_depend_on_the_depth_of_earlier_stages() -> None:
    space = SPACES["pit-nano"]
    choices = {"base_dim": 8, "mlp_ratio": 1, "num_heads": [1, 2, 4]}
    short, long = (
        shared_network(space, space.architecture({**choices, "depth": depth}))
        for depth in ([1, 1, 1], [3, 2, 6])
    )
    for ours, theirs in ((0, 0), (1, 3), (2, 4), (3, 6), (4, 7)):  # blocks and poolings
        for one, other in zip(
            short.blocks[ours].parameters(), long.blocks[theirs].parameters(), strict=True
        ):
            assert torch.equal(one, other)
    assert torch.equal(short.position, long.position)
    assert torch.equal(short.head.weight, long.head.weight)
    assert not torch.equal(long.blocks[4].qkv.weight, long.blocks[5].qkv.weight)


def test_roles_are_of_one_parameter_each() -> None:
    for space in SPACES.values():
        arch = space.sample(random.Random(0))
        with torch.device("meta"):
            network = space.network(arch, CLASSES)
        found = parameter_roles(network, space.stages(arch))
        assert len({role.name for role in found.values()}) == len(found)
        assert list(found) == [name for name, _ in network.named_parameters()]


def test_scales_are_those_of_the_networks_own_rule() -> None:
    pit, arch = SPACES["pit-nano"], drawn("pit-nano", 1)
    for block in shared_network(pit, arch).transformer_blocks:
        for _, layer in block.linears():
            bound = 1 / math.sqrt(layer.in_features)
            assert 0.9 * bound < layer.weight.abs().max() <= bound
    gpt, arch = SPACES["gpt2-nano"], SPACES["gpt2-nano"].largest()
    fresh, shared = gpt.build(arch, seed=3), shared_network(gpt, arch, seed=3)
    for (name, one), other in zip(fresh.named_parameters(), shared.parameters(), strict=True):
        of_fresh, of_shared = (float(own.detach().std()) for own in (one, other))
        if one.numel() > 100:
            assert of_fresh == pytest.approx(of_shared, rel=0.2, abs=1e-9), name
        assert (of_fresh > 0) == (not torch.equal(one, other)), name


def test_the_seed_alone_fixes_the_weights() -> None:
    """Not the order of the networks, nor the thread."""
    space, archs = SPACES["autoformer-nano"], [drawn("autoformer-nano", n) for n in range(6)]

    def weights(arch: Architecture, seed: int = 1) -> list[Tensor]:
        network = SpaceNetwork(space, arch, seed, shared=True).build(torch.device("cpu"))
        return [p.detach().clone() for p in network(CLASSES).parameters()]

    one_by_one = [weights(arch) for arch in archs]
    shared_draws.KEPT = KeptDraws(2**28)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(weights, reversed(archs)))[::-1]
    for one, other in zip(one_by_one, together, strict=True):
        assert all(map(torch.equal, one, other))
    others = weights(archs[0], seed=2)
    random_ones = [(a, b) for a, b in zip(one_by_one[0], others, strict=True) if a.std() > 0]
    assert len(random_ones) > 5
    assert not any(torch.equal(a, b) for a, b in random_ones)


def test_heads_of_fewer_classes_are_the_first_rows() -> None:
    space, arch = SPACES["pit-nano"], drawn("pit-nano", 2)
    build = SpaceNetwork(space, arch, 5, shared=True).build(torch.device("cpu"))
    few, many = (build(classes).head.weight.detach().clone() for classes in (3, 40))
    assert torch.equal(few, many[:3])


def test_identities_differ() -> None:
    space, arch = SPACES["pit-nano"], drawn("pit-nano", 0)
    fresh, shared = (SpaceNetwork(space, arch, 1, own) for own in (False, True))
    assert fresh.identity != shared.identity
    assert shared.identity != SpaceNetwork(space, arch, 2, shared=True).identity


def test_the_memory_of_draws_is_bounded() -> None:
    kept = KeptDraws(4 * 1000)

    def numbers(group: str, name: str, rows: int = 30) -> Tensor:
        return kept.numbers(group, name, "normal_", (rows, 20))

    first = numbers("a", "x")
    assert numbers("a", "x").data_ptr() == first.data_ptr()
    assert torch.equal(numbers("a", "y")[:3], numbers("a", "y", rows=3))
    assert kept.size == 4 * (600 + 60)  # only the first rows of y fit
    numbers("b", "x")
    assert kept.size == 4 * 600  # the earlier group had to go
    assert torch.equal(numbers("a", "x"), first)
    assert numbers("a", "z", rows=100).shape == (100, 20)
    assert kept.size <= 4 * 1000


class Own(nn.Module):
    """A network of nobody's, initialised in several ways."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.1))
        self.linear = nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.fused = nn.Parameter(torch.empty(2 * width, width))
        self.copied = nn.Parameter(torch.randn(width, width))
        nn.init.trunc_normal_(self.linear.weight, std=0.02)
        for half in self.fused.data.chunk(2):
            nn.init.xavier_uniform_(half)


def test_any_module_is_made_of_shared_draws() -> None:
    def made(width: int, seed: int = 0) -> Own:
        torch.manual_seed(width)
        return made_with_shared_draws(lambda: Own(width), lambda own: own, seed)

    small, large = made(6), made(8)
    assert torch.equal(small.scale, torch.full((6,), 0.1))
    assert torch.equal(small.linear.weight, large.linear.weight[:6, :6])
    for one, other in zip(small.qkv.weight.chunk(3), large.qkv.weight.chunk(3), strict=True):
        assert correlation(one, other[:6, :6]) > 0.9999
    for one, other in zip(small.fused.chunk(2), large.fused.chunk(2), strict=True):
        assert correlation(one, other[:6, :6]) > 0.9999
    assert correlation(small.copied, large.copied[:6, :6]) < 0.9  # drawn before it is a parameter
    assert not torch.equal(made(6, seed=1).linear.weight, small.linear.weight)


def test_other_tensors_keep_their_own_numbers() -> None:
    network, generators = nn.Linear(3, 3), [torch.Generator().manual_seed(1) for _ in range(2)]
    with SharedDraws("group", NetworkRoles(network, parameter_roles(network, ()))):
        inside = torch.empty(5).normal_(generator=generators[0])
    assert torch.equal(inside, torch.empty(5).normal_(generator=generators[1]))
