"""Subnets against networks of their own: outputs, gradients, counts; nothing is copied."""

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.oneshot.supernet.shared_weights import Supernet, SupernetError
from autoprox.searchspaces import (
    SPACES,
    Architecture,
    ArchitectureError,
    SearchSpace,
    TransformerNetwork,
    get_space,
)

ENTANGLED = [space for space in SPACES.values() if space.entangled]
NANO = get_space("autoformer-nano")
CLASSES = 5
SMALL = [space for space in ENTANGLED if space.params(space.largest(), CLASSES) < 12e6]


def randomised(supernet: Supernet) -> Supernet:
    """With norms and biases that aren't the same everywhere."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in supernet.parameters.values():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return supernet


def architectures(space: SearchSpace, count: int) -> list[Architecture]:
    rng = random.Random(0)
    extremes = [space.largest(), space.smallest()]
    return extremes + [space.sample(rng) for _ in range(count)]


def images(space: SearchSpace, count: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, *space.input_shape, generator=generator)


def parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("space", SMALL, ids=lambda space: space.name)
def test_an_extracted_network_is_plain_and_computes_the_same(space: SearchSpace) -> None:
    supernet = randomised(Supernet(space, CLASSES))
    for arch in architectures(space, 3):
        subnet, extracted = supernet.subnet(arch), supernet.extract(arch)
        plain = space.build(arch, CLASSES)
        plain.load_state_dict(extracted.state_dict())
        with torch.no_grad():
            outputs = [network(images(space)) for network in (subnet, extracted, plain)]
        torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-6)
        assert torch.equal(outputs[1], outputs[2])
        assert parameters(subnet) == parameters(extracted) == space.params(arch, CLASSES)


@pytest.mark.parametrize("space", ENTANGLED, ids=lambda space: space.name)
def test_every_parameter_is_a_view_of_that_of_its_name(space: SearchSpace) -> None:
    with torch.device("meta"):
        names = dict(space.network(space.largest(), CLASSES).named_parameters())
        for arch in architectures(space, 10):
            for name, own in space.network(arch, CLASSES).named_parameters():
                pairs = zip(own.shape, names[name].shape, strict=True)
                assert all(part <= whole for part, whole in pairs), name


def storages(network: nn.Module) -> set[int]:
    return {p.untyped_storage().data_ptr() for p in network.parameters()}


def test_nothing_is_copied() -> None:
    supernet = Supernet(NANO, CLASSES)
    own = storages(supernet.network)
    for arch in architectures(NANO, 5):
        subnet = supernet.subnet(arch)
        assert storages(subnet) <= own
        functional.cross_entropy(subnet(images(NANO)), torch.tensor([0, 1])).backward()
        assert all(parameter.grad is None for parameter in subnet.parameters())
    pointers = {p.grad.untyped_storage().data_ptr() for p in supernet.parameters.values()}
    assert pointers == {supernet.gradients.untyped_storage().data_ptr()}


def gradient(network: TransformerNetwork) -> dict[str, Tensor]:
    found = network.double()(images(NANO).double()).logsumexp(1).sum()
    names, wanted = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(found, wanted), strict=True))


def thirds(rows: Tensor, heads: int) -> Tensor:
    """From rows of each head in turn to the queries', keys' and values', one by one."""
    dim = len(rows) // heads // 3
    order = [
        head * 3 * dim + third * dim + i
        for third in range(3)
        for head in range(heads)
        for i in range(dim)
    ]
    return rows[order]


def test_gradients_of_several_subnets_add_up_in_their_places() -> None:
    supernet = randomised(Supernet(NANO, CLASSES))
    chosen = architectures(NANO, 2)
    for arch in chosen:
        supernet.subnet(arch)(images(NANO)).logsumexp(1).sum().backward()
    wanted = {name: torch.zeros_like(p) for name, p in supernet.parameters.items()}
    for arch in chosen:
        for name, own in gradient(supernet.extract(arch)).items():
            if "qkv" in name:  # compared in the plain order, where the slice isn't the first rows
                heads = arch["num_heads"][int(name.split(".")[1])]
                rows = torch.arange(len(own))
                place = torch.empty_like(rows)
                place[thirds(rows, heads)] = torch.arange(len(rows))
                own = own[place]
            wanted[name][tuple(slice(n) for n in own.shape)] += own
    for name, parameter in supernet.parameters.items():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-5)


def test_the_largest_subnet_is_the_network_that_the_seed_builds() -> None:
    supernet, largest = Supernet(NANO, CLASSES, seed=3), NANO.largest()
    built = NANO.build(largest, CLASSES, seed=3).state_dict()
    for name, value in supernet.extract(largest).state_dict().items():
        assert torch.equal(value, built[name])
    weight, heads = supernet.parameters["blocks.0.qkv.weight"], largest["num_heads"][0]
    assert torch.equal(thirds(weight, heads), built["blocks.0.qkv.weight"])


def test_an_extracted_network_is_its_own() -> None:
    supernet = Supernet(NANO, CLASSES)
    extracted = supernet.extract(NANO.largest())
    assert not storages(extracted) & storages(supernet.network)
    assert all(p.grad is None for p in extracted.parameters())


def test_a_space_without_slices() -> None:
    rule = r"a supernet needs a space .* largest, which pit is not; choose from autoformer-nano"
    with pytest.raises(SupernetError, match=rule):
        Supernet(get_space("pit"), CLASSES)


def test_an_architecture_of_another_space() -> None:
    other = get_space("autoformer-ti").smallest()
    supernet = Supernet(NANO, CLASSES)
    for method in (supernet.subnet, supernet.extract):
        with pytest.raises(ArchitectureError, match="space must be autoformer-n"):
            method(other)
