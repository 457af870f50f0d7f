"""The suite for a search space: its architectures as data, and the networks they build."""

import json
import random
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from autoprox.searchspaces import (
    SPACES,
    Architecture,
    SearchSpace,
    TransformerNetwork,
    architecture_from_json,
)
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.shared_draws import ParameterRole, parameter_roles, shared_network
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.searchspaces.space import choice_values
from autoprox.testing.rule_assertion import assert_rule

COMPARED = 64  # rows and columns of two slices
SAME_BUT_FOR_SCALE = 0.999  # their correlation


def check_space(space: SearchSpace) -> None:
    """Check that architectures are valid data drawn from one generator, and networks as described.

    Large networks are built without weights, and the smallest cut to a block or two with them.
    """
    with SPACES.trial(space.name, space):
        check_architectures(space)
        check_variation(space)
        check_size_counts(space)
        check_size_limits(space)
        check_block_specs(space)
        check_initial_weights(space)
        check_shared_weights(space)


def check_architectures(space: SearchSpace) -> None:
    """Check that samples are valid, different, fixed by the seed, and survive JSON."""
    drawn = sample_architectures(space, 50)
    for arch in drawn:
        space.validate(arch)
        again = architecture_from_json(json.loads(json.dumps(arch.to_json())))
        assert_rule(again == arch, f"an architecture survives JSON, but {arch} became {again}")
        assert_rule(again.digest == arch.digest, f"and keeps its digest, but not {arch}")
    assert_rule(drawn == sample_architectures(space, 50), "samples depend on the generator alone")
    distinct = len(set(drawn))
    digests = {arch.digest for arch in drawn}
    assert_rule(len(digests) == distinct, "a digest is that of one architecture")
    assert_rule(distinct > 45 or distinct >= space.size() / 2, "samples are of the whole space")
    rows = torch.tensor([space.features(arch) for arch in drawn])
    assert_rule(rows.isfinite().all(), "features are finite")


def check_variation(space: SearchSpace) -> None:
    """Check that mutants differ, children inherit, and nothing draws from a global generator."""
    states = random.getstate(), torch.get_rng_state()
    rng = random.Random(1)
    for probability in (0.01, 0.3, 1.0):
        for parent in sample_architectures(space, 10):
            child = space.mutate(parent, rng, probability)
            space.validate(child)
            assert_rule(child != parent, f"a mutant differs from its parent {parent}")
    for first, second in zip(
        sample_architectures(space, 20), reversed(sample_architectures(space, 20)), strict=True
    ):
        child = space.crossover(first, second, rng)
        space.validate(child)
        for name, values in child.choices:
            parents = [choice_values(parent[name]) for parent in (first, second)]
            for i, value in enumerate(choice_values(values)):
                inherited = [parent[i] for parent in parents if i < len(parent)]
                assert_rule(
                    value in inherited, f"a child's values are its parents', but not {name}"
                )
        assert_rule(
            space.crossover(first, first, rng) == first, "of one parent a child is its copy"
        )
    space.build(shallow_architecture(space))
    untouched = random.getstate() == states[0] and torch.equal(torch.get_rng_state(), states[1])
    assert_rule(untouched, "nothing draws from a global generator")


def check_size_counts(space: SearchSpace) -> None:
    """Check parameters against the built network, and operations against torch's counter."""
    for arch, classes in zip(sample_architectures(space, 4), (1000, 100, 10, 1), strict=True):
        network = build_on_meta_device(space, arch, classes)
        built, said = sum(p.numel() for p in network.parameters()), space.params(arch, classes)
        assert_rule(built == said, f"{arch} has {built} parameters, not {said}")
        if classes > 1 and space.counts_macs:
            with FlopCounterMode(display=False) as counter:
                network(example_input(space, device="meta"))
            counted, said = counter.get_total_flops(), 2 * space.flops(arch, classes)
            assert_rule(counted == said, f"{arch} has {counted} operations, not {said}")


def check_size_limits(space: SearchSpace) -> None:
    """Check that counting sizes, as the space describes them, finds architectures within limits."""
    middle = sorted(sample_architectures(space, 21), key=lambda arch: space.params(arch, 10))[10]
    sizes = space.params(middle, 10), space.flops(middle, 10)
    for limits in (
        SizeLimits(space, 10, (int(0.9 * sizes[0]), int(1.1 * sizes[0]))),
        SizeLimits(space, 10, flops=(None, sizes[1])),
    ):
        drawn = ArchitectureSampler(limits).sample(5, random.Random(0))
        assert_rule(drawn != [], f"architectures are found where {middle} is, but not {limits}")
        assert_rule(all(map(limits.admit, drawn)), f"what is found is within the limits {limits}")


def check_block_specs(space: SearchSpace) -> None:
    """Check that blocks describe the built network: tokens, widths, and the shapes of matrices."""
    arch = sample_architectures(space, 1)[0]
    network, blocks = build_on_meta_device(space, arch, classes=7), space.blocks(arch)
    outputs: list[tuple[int, ...]] = []
    for module in network.transformer_blocks:
        module.register_forward_hook(lambda _, args, output: outputs.append(tuple(output.shape)))
    logits = network(example_input(space, batch=2, device="meta"))
    scored = (2, space.context, space.vocabulary) if isinstance(space, TokenSpace) else (2, 7)
    assert_rule(logits.shape == scored, f"the logits are {scored}, got {tuple(logits.shape)}")
    wanted = [(2, block.tokens, block.width) for block in blocks]
    assert_rule(outputs == wanted, f"the blocks' outputs are {wanted}, got {outputs}")
    assert_rule(
        network.final_block is network.transformer_blocks[-1], "the final block is the last"
    )
    for module, block in zip(network.transformer_blocks, blocks, strict=True):
        shapes: dict[str, list[tuple[int, ...]]] = {"msa": [], "mlp": []}
        for domain, layer in module.linears():
            shapes[domain].append(tuple(layer.weight.shape))
        if shapes["msa"]:  # what doesn't attend may have another width before it
            assert_rule(
                shapes["msa"][-1] == (block.width, block.inner), "`inner` is what proj takes"
            )
            assert_rule(
                shapes["mlp"][0] == (block.hidden, block.width), "`hidden` is what fc1 gives"
            )
        assert_rule(
            shapes["mlp"][-1] == (block.width, block.hidden), "`hidden` is the input of fc2"
        )
        if space.origins(arch) is not None:
            assert_rule(
                shapes["msa"][:-1] == [(3 * block.inner, block.width)], "slices have one qkv"
            )
            assert_rule(len(shapes["mlp"]) == 2, "slices have fc1 and fc2")
        assert_rule(module.heads == block.heads, "`heads` is the block's number of heads")


def check_initial_weights(space: SearchSpace) -> None:
    """Check that a seed fixes the weights, classes change the head alone, and gradients exist."""
    arch = shallow_architecture(space)
    ten, again, other = (space.build(arch, 10, seed=seed) for seed in (1, 1, 2))
    hundred = space.build(arch, 100, seed=1).state_dict()
    for (name, p), q in zip(ten.named_parameters(), again.parameters(), strict=True):
        assert_rule(torch.equal(p, q), f"the seed fixes {name}")
        same = name.startswith("head.") or torch.equal(p, hundred[name])
        assert_rule(same, f"{name} doesn't depend on the number of classes")
    for (_, one), (_, two) in zip(ten.layers(), other.layers(), strict=True):
        assert_rule(not torch.equal(one.weight, two.weight), "another seed gives other weights")
    output = ten(example_input(space))
    plain = {name: p.detach() for name, p in ten.named_parameters()}
    replaced = functional_call(ten, plain, (example_input(space),))
    assert_rule(
        torch.allclose(output, replaced, 1e-3, 1e-4), "parameters may be replaced by plain tensors"
    )
    output.square().sum().backward()
    for name, p in ten.named_parameters():
        gradient = p.grad is not None and bool(p.grad.isfinite().all()) and bool(p.grad.any())
        assert_rule(gradient, f"{name} gets a finite gradient that isn't 0")


def check_shared_weights(space: SearchSpace) -> None:
    """Check that shared weights are slices of a larger network's, but for the rule's scale.

    A rule must draw parameters in place, by `normal_`, `uniform_` or `torch.nn.init`.
    """
    arch, longer = shallow_architecture(space), shallow_architecture(space, max, longer=1)
    fresh = dict(space.build(arch, 10, seed=1).named_parameters())
    small, large = (_shared_parameters(space, own) for own in (arch, longer))
    compared = 0
    for role, (name, parameter) in small.items():
        if role in large and parameter.numel() > 1 and not torch.equal(parameter, fresh[name]):
            both = parameter, large[role][1]
            shape = tuple(map(min, *(own.shape for own in both)))  # of what both have
            first = tuple(slice(COMPARED) for _ in shape)
            slices = (slice_of_parameter(own, shape, role)[first].flatten() for own in both)
            pair = torch.stack(list(slices))
            same = float(torch.corrcoef(pair.double())[0, 1]) > SAME_BUT_FOR_SCALE
            assert_rule(same, f"{role.name} is a slice, drawn in place, of a larger network's")
            compared += 1
    assert_rule(compared > 0, "networks have parameters in common")


def _shared_parameters(
    space: SearchSpace, arch: Architecture
) -> dict[ParameterRole, tuple[str, Tensor]]:
    network = shared_network(space, arch, 10, seed=1)
    roles = parameter_roles(network, space.stages(arch))
    return {role: (name, network.get_parameter(name).detach()) for name, role in roles.items()}


def slice_of_parameter(large: Tensor, shape: Sequence[int], role: ParameterRole) -> Tensor:
    """The slice of a larger parameter of the same role: of each part; of a kernel the middle."""
    starts = [
        size // 2 - n // 2 if role.has_kernel and dim > 1 else 0
        for dim, (size, n) in enumerate(zip(large.shape, shape, strict=True))
    ]
    sizes = [shape[0] // role.parts, *shape[1:]]
    ranges = tuple(slice(start, start + n) for start, n in zip(starts, sizes, strict=True))
    return torch.cat([part[ranges] for part in large.chunk(role.parts)])


def smallest_architecture(space: SearchSpace) -> Architecture:
    """The first option of every choice."""
    return space.architecture(space.complete({}, itemgetter(0)))


def shallow_architecture(
    space: SearchSpace, pick: Callable[[Sequence[Any]], Any] = itemgetter(0), longer: int = 0
) -> Architecture:
    """The smallest network cut to a block or two: perhaps outside the space, but quick to run."""
    choices: dict[str, Any] = space.complete({}, pick)
    for name, field in space.fields.items():
        if field.count:
            count = 2 + longer
            choices |= {name: count * choices[name][:1], field.count: count}
        elif name == "depth" and field.listed:
            choices[name] = (1 + longer,) * len(choices[name])
    return Architecture(space.name, choices)


def example_input(space: SearchSpace, batch: int = 1, device: str = "cpu") -> Tensor:
    """An input of full size; on the CPU a short one if its length is free."""
    if isinstance(space, TokenSpace):
        length = 8 if device == "cpu" else space.context
        return torch.arange(batch * length, device=device).reshape(batch, length) % 200
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, *space.input_shape, generator=generator).to(device)


def sample_architectures(space: SearchSpace, count: int) -> list[Architecture]:
    """Random architectures, always the same."""
    rng = random.Random(0)
    return [space.sample(rng) for _ in range(count)]


def build_on_meta_device(
    space: SearchSpace, arch: Architecture, classes: int = 1000
) -> TransformerNetwork:
    """A network without weights."""
    with torch.device("meta"):
        return space.build(arch, classes)
