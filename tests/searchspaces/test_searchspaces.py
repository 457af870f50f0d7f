"""What holds for every search space, and the published networks that the spaces must contain."""

import os
import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import kendalltau
from torch import nn

from autoprox.searchspaces import (
    SPACES,
    Architecture,
    ArchitectureError,
    BlockSpec,
    SearchSpace,
    TransformerNetwork,
    architecture_from_json,
    get_space,
)
from autoprox.searchspaces.bignas import BigNAS
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.space import one, per_layer_field, per_stage_field
from autoprox.testing.space_checks import (
    build_on_meta_device,
    example_input,
    sample_architectures,
    shallow_architecture,
    smallest_architecture,
)


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> SearchSpace:
    return SPACES[request.param]


def parameter_count(network: TransformerNetwork) -> int:
    return sum(p.numel() for p in network.parameters())


def flat(arch: Architecture) -> dict[tuple[str, int], float]:
    return {
        (name, i): number
        for name, value in arch.choices
        for i, number in enumerate(value if isinstance(value, tuple) else (value,))
    }


def test_a_whole_number_is_the_same_choice_as_an_integer_or_a_float(space: SearchSpace) -> None:
    def cast(value: Any, kind: type) -> Any:
        if isinstance(value, tuple):
            return [cast(v, kind) for v in value]
        return value if isinstance(value, str | bool) or value != int(value) else kind(value)

    arch = sample_architectures(space, 1)[0]
    for kind in (int, float):
        choices = {name: cast(value, kind) for name, value in reversed(arch.choices)}
        assert repr(space.architecture(choices)) == repr(arch)
        assert Architecture(space.name, choices).digest == arch.digest


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_mutation_redraws_the_share_that_was_asked_for(probability: float) -> None:
    """Of two options a new draw is the other one half of the time, of three two thirds."""
    space, rng = get_space("autoformer-ti"), random.Random(2)
    arch = smallest_architecture(space)
    parent = flat(arch)
    children = [flat(space.mutate(arch, rng, probability)) for _ in range(200)]
    changed = sum(child[k] != parent[k] for child in children for k in parent)
    wanted = probability * (24 / 2 + 2 * 2 / 3) / 26
    assert changed / (200 * 26) == pytest.approx(wanted, abs=0.03)


def test_crossover_mixes_its_parents(space: SearchSpace) -> None:
    rng = random.Random(4)
    a, b = space.sample(rng), space.sample(rng)
    children = {space.crossover(a, b, rng) for _ in range(20)}
    assert len(children - {a, b}) > 5


def test_extra_layers_are_those_of_stem_projections_and_head(space: SearchSpace) -> None:
    network = build_on_meta_device(space, sample_architectures(space, 1)[0], classes=7)
    extra, blocks = network.extra_layers(), network.transformer_blocks
    domains = [domain for domain, _ in extra]
    firsts = [block.linears()[0] for block in blocks if not isinstance(network, BigNAS)]
    queries = [layer for domain, layer in extra if domain == "qkv"]
    assert {("msa", id(layer)) for layer in queries} <= {(d, id(m)) for d, m in network.layers()}
    assert {id(layer) for _, layer in firsts} <= {id(layer) for layer in queries}
    if isinstance(space, TokenSpace):
        assert domains == ["qkv"] * len(blocks)
        return
    assert domains[-1] == "head"
    assert extra[-1][1] is network.head
    stem = [layer for domain, layer in extra if domain == "stem"]
    images = next(m for m in network.modules() if isinstance(m, nn.Conv2d) and m.in_channels == 3)
    assert stem[0] is images
    assert domains[: len(stem)] == ["stem"] * len(stem)
    names = {id(module): i for i, module in enumerate(network.modules())}
    order = [names[id(layer)] for _, layer in extra]
    assert order == sorted(order)


def test_features_are_finite_and_as_many_for_every_architecture(space: SearchSpace) -> None:
    rows = torch.tensor([space.features(arch) for arch in sample_architectures(space, 20)])
    assert rows.isfinite().all()
    assert (rows.std(0) > 0).sum() >= 6


def test_only_the_head_depends_on_the_number_of_classes(space: SearchSpace) -> None:
    arch = shallow_architecture(space)
    ten, hundred = space.build(arch, 10, seed=1), space.build(arch, 100, seed=1)
    wanted = hundred.state_dict()
    for name, p in ten.named_parameters():
        assert name.startswith("head.") or torch.equal(p, wanted[name])
    if isinstance(space, TokenSpace):
        return
    ten.reset_head(100, seed=1)
    assert torch.equal(ten.head.weight, hundred.head.weight)
    assert torch.equal(ten.head.bias, hundred.head.bias)
    ten.reset_head(100, seed=2)
    assert not torch.equal(ten.head.weight, hundred.head.weight)


def test_every_parameter_is_set_and_gets_a_gradient(space: SearchSpace) -> None:
    network = space.build(shallow_architecture(space), 10, seed=3)
    network(example_input(space)).logsumexp(-1).sum().backward()
    for name, p in network.named_parameters():
        assert p.detach().abs().max() < 3, name
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


def test_digest_is_the_same_in_every_process_and_release() -> None:
    arch = smallest_architecture(get_space("pit"))
    assert arch["depth"] == (1, 4, 2)
    assert arch.digest == "dbeb5939b6f67da65a86bd49ddff9815497b370915cead238b099122d3eb1732"


def test_aliases_and_unknown_names() -> None:
    assert get_space("autoformer") is SPACES["autoformer-ti"]
    with pytest.raises(
        ArchitectureError, match=r"unknown search space 'autofromer-b' \(did you mean autoformer-b"
    ):
        get_space("autofromer-b")
    with pytest.raises(ArchitectureError, match=r"\(did you mean autoformer\?\); .* autoformer,"):
        get_space("autofromer")
    with pytest.raises(ArchitectureError, match=r"choose from autoformer, autoformer-ti, .*pit"):
        get_space("resnet")


TI: dict[str, Any] = {
    "hidden_dim": 192,
    "depth": 12,
    "mlp_ratio": [4.0] * 12,
    "num_heads": [3] * 12,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dim": 200}, "^hidden_dim must be one of 192, 216, 240, but got 200$"),
        ({"hidden_dim": "192"}, "hidden_dim must be one of .* but got '192'"),
        ({"hidden_dim": float("nan")}, "hidden_dim must be one of .* but got nan"),
        ({"hidden_dim": [192]}, r"hidden_dim must be one of .* but got \[192\]"),
        ({"mlp_ratio": [4.0] * 3 + [5] + [4.0] * 8}, r"mlp_ratio\[3\] must be one of 3.5, 4.0, bu"),
        ({"num_heads": [3] * 11}, r"num_heads must be a list of 12 \(the depth\) values, but got"),
        ({"num_heads": 3}, r"num_heads must be a list of 12 \(the depth\) values, but got 3"),
        ({"depth": 13}, r"mlp_ratio must be a list of 13 \(the depth\) values, but got"),
        ({"hiden_dim": 192}, r"unknown choice 'hiden_dim' \(did you mean hidden_dim\?\); choose"),
    ],
)
def test_wrong_choices_are_named(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        get_space("autoformer-ti").architecture(TI | changes)


def test_other_wrong_input_is_named() -> None:
    space = get_space("autoformer-ti")
    arch = space.architecture(TI)
    rng = random.Random(0)
    with pytest.raises(ArchitectureError, match=r"^depth is missing from the choices$"):
        space.architecture({name: value for name, value in TI.items() if name != "depth"})
    with pytest.raises(ArchitectureError, match=r"choices must map hidden_dim, .* but got None"):
        space.architecture(None)
    pit = {"base_dim": 16, "mlp_ratio": 2, "depth": [True, 4, 2], "num_heads": [2, 2, 2]}
    with pytest.raises(ArchitectureError, match=r"depth\[0\] must be one of 1, 2, 3, but got True"):
        get_space("pit").architecture(pit)
    with pytest.raises(ArchitectureError, match="space must be pit, but got autoformer-ti"):
        get_space("pit").validate(arch)
    with pytest.raises(ArchitectureError, match="space must be autoformer-ti, but got pit"):
        space.crossover(arch, smallest_architecture(get_space("pit")), rng)
    with pytest.raises(ArchitectureError, match=r"hidden_dim must be one of"):
        space.mutate(Architecture(space.name, TI | {"hidden_dim": 64}), rng, 0.5)
    with pytest.raises(ArchitectureError, match="`0 < probability <= 1` must hold, but got 0"):
        space.mutate(arch, rng, 0)
    with pytest.raises(ArchitectureError, match="choices need a space, but got none"):
        architecture_from_json({"arch": TI})


class Toy(SearchSpace):
    """Two layers at most, and a rule: small enough to list."""

    def rule(self, choices: Mapping[str, Any]) -> str | None:
        return "depth 2 needs width 8" if choices["depth"] == 2 != choices["width"] / 4 else None

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        return tuple(BlockSpec(arch["width"], 3, h, 8, 16) for h in arch["heads"])

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        return 0

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        return 0

    def network(self, arch: Architecture, classes: int) -> TransformerNetwork:
        return TransformerNetwork()


def toy(**more: Any) -> Toy:
    fields = {"width": one(4, 8), "depth": one(1, 2), "heads": per_layer_field(1, 2, 4)}
    return Toy("toy", "for tests", fields | more)


def test_size_counts_what_sampling_reaches() -> None:
    space = toy(kernels=per_stage_field((3, 5), (7, 9)))
    rng = random.Random(0)
    listed = {
        Architecture("toy", {"width": w, "depth": len(h), "heads": h, "kernels": k})
        for w, n in ((4, 1), (8, 1), (8, 2))
        for h in product((1, 2, 4), repeat=n)
        for k in product((3, 5), (7, 9))
    }
    assert {space.sample(rng) for _ in range(3000)} == listed
    assert space.size() == len(listed) == 60


def test_options_of_a_layer_may_depend_on_its_other_choices() -> None:
    """Every combination is written out, so that the size and what is valid are known."""

    def fits(option: int, layer: Mapping[str, Any]) -> bool:
        return option >= layer["width"] * layer["heads"]

    space = toy(inner=per_layer_field(8, 16, 32, where=fits))
    layers = {w: [(h, i) for h in (1, 2, 4) for i in (8, 16, 32) if i >= w * h] for w in (4, 8)}
    assert space.size() == len(layers[4]) + len(layers[8]) + len(layers[8]) ** 2
    rng = random.Random(0)
    archs = {space.sample(rng) for _ in range(2000)}
    assert len(archs) == space.size()
    a, b = sorted(archs, key=lambda arch: arch.digest)[:2]
    for child in (space.mutate(a, rng, 0.5), space.crossover(a, b, rng)):
        assert child in archs
    with pytest.raises(ArchitectureError, match=r"inner\[1\] must be one of 16, 32, but got 8"):
        space.architecture({"width": 8, "depth": 2, "heads": [1, 2], "inner": [8, 8]})


def test_options_may_be_words_and_booleans() -> None:
    space = toy(bias=one(True, False), mixing=per_layer_field("sdp", "dft"))
    choices = {"width": 8, "depth": 2, "heads": [1, 2], "bias": True, "mixing": ["dft", "sdp"]}
    arch = space.architecture(choices)
    assert arch.to_json()["choices"] == choices
    assert arch["bias"] is True
    other = space.architecture(choices | {"mixing": ["sdp", "sdp"]})
    assert other.digest != arch.digest
    with pytest.raises(ArchitectureError, match=r"bias must be one of True, False, but got 1$"):
        space.architecture(choices | {"bias": 1})
    with pytest.raises(ArchitectureError, match=r"mixing\[0\] must be .* sdp, dft, but got 'dct'"):
        space.architecture(choices | {"mixing": ["dct", "sdp"]})
    with pytest.raises(ArchitectureError, match="width must be one of 4, 8, but got '8'"):
        space.architecture(choices | {"width": "8"})


def test_a_broken_rule_is_the_message() -> None:
    with pytest.raises(ArchitectureError, match=r"^depth 2 needs width 8$"):
        toy().architecture({"width": 4, "depth": 2, "heads": [1, 1]})


def test_retries_are_bounded() -> None:
    space = Toy("toy", "for tests", {"width": one(4), "depth": one(1), "heads": per_layer_field(1)})
    with pytest.raises(ArchitectureError, match="toy: no new valid architecture in 1000 attempts"):
        space.mutate(space.sample(random.Random(0)), random.Random(0), 1.0)


def test_features_are_logarithms_by_thirds() -> None:
    space = Toy("toy", "", {"width": one(8), "depth": one(6), "heads": per_layer_field(1, 2, 4)})
    arch = space.architecture({"width": 8, "depth": 6, "heads": [1, 1, 2, 4, 4, 4]})
    wanted = torch.tensor([6, 8, 8, 8, 1, 3, 4, 2, 2, 2.0]).log()
    torch.testing.assert_close(torch.tensor(space.features(arch)), wanted)


@pytest.mark.parametrize(
    ("name", "file", "taus"),
    [
        ("autoformer-ti", "gt_autoformer.pth", (0.54, 0.70, 0.31)),
        ("pit", "gt_pit.pth", (0.81, 0.86, 0.56)),
    ],
)
def test_vit_bench_101(name: str, file: str, taus: tuple[float, ...]) -> None:
    """Its networks are in the space, and counting their parameters ranks them as was published."""
    folder = os.environ.get("AUTOPROX_DATA")
    if folder is None:
        pytest.skip("AUTOPROX_DATA isn't set: the published architectures aren't at hand")
    path = Path(folder) / "vit-bench-101" / file
    rows = torch.load(path, weights_only=True, map_location="cpu")
    space = get_space(name)
    params = []
    for row in rows:
        arch = space.architecture(row["arch"])
        assert arch.to_json()["choices"] == row["arch"]
        params.append(space.params(arch, classes=100))
        assert params[-1] == parameter_count(build_on_meta_device(space, arch, classes=100))
    labels = ("c100_kd_acc", "flower_kd_acc", "chaoyang_kd_acc")
    measured = [kendalltau(params, [row[label] for row in rows]).statistic for label in labels]
    assert measured == pytest.approx(taus, abs=0.01)


def test_every_network_with_origins_fits_into_the_largest(space: SearchSpace) -> None:
    if space.origins(smallest_architecture(space)) is None:
        return
    largest = space.largest()
    space.validate(largest)
    blocks = space.blocks(largest)
    for arch in sample_architectures(space, 20):
        origins = space.origins(arch)
        assert origins is not None
        own = space.blocks(arch)
        assert sorted(set(origins)) == list(origins)
        for origin, block in zip(origins, own, strict=True):
            for size in ("width", "inner", "hidden"):
                assert getattr(block, size) <= getattr(blocks[origin], size)
            assert block.tokens == blocks[origin].tokens
