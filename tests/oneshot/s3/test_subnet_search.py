"""The search with inherited weights, on an objective whose best is known."""

import random
from collections.abc import Sequence

import pytest

from autoprox.oneshot.s3.subnet_search import (
    SubnetSearchSettings,
    crossover_subnets,
    mutate_subnet,
    search_subnets,
)
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.searchspaces.swin import SWIN_NANO

STAGES = (1, 2, 3, 4)
BLOCK = ("window", "qkv_dim", "mlp_ratio")
SAMPLER = ArchitectureSampler(SizeLimits(SWIN_NANO, 10, flops=(None, 3_000_000)))
SETTINGS = SubnetSearchSettings(population=8, generations=5, parents=3)


def blocks(arch: Architecture, stage: int) -> list[tuple[float, ...]]:
    return list(zip(*(arch[f"{name}_{stage}"] for name in BLOCK), strict=True))


def errors(architectures: Sequence[Architecture]) -> list[float]:
    """The more operations, the fewer."""
    return [1e8 / SWIN_NANO.flops(arch) for arch in architectures]


@pytest.mark.parametrize("seed", range(20))
def test_crossover_takes_whole_blocks_of_either_parent(seed: int) -> None:
    rng = random.Random(seed)
    a, b = SWIN_NANO.sample(rng), SWIN_NANO.sample(rng)
    child = crossover_subnets(SWIN_NANO, a, b, rng)
    SWIN_NANO.validate(child)
    for stage in STAGES:
        for name in ("depth", "embed_dim"):
            key = f"{name}_{stage}"
            assert child[key] in (a[key], b[key])
        for place, block in enumerate(blocks(child, stage)):
            own = [blocks(parent, stage) for parent in (a, b)]
            assert block in [parent[place] for parent in own if place < len(parent)]


def test_mutation_changes_stages_and_blocks_by_their_probabilities() -> None:
    """Of three options a new draw differs two times of three; a block of 18 17 times of 18."""
    rng = random.Random(0)
    settings = SubnetSearchSettings(mutate_stage=0.3, mutate_block=0.5)
    stages, same_depth, changed = [], 0, 0
    for _ in range(300):
        parent = SWIN_NANO.sample(rng)
        child = mutate_subnet(SWIN_NANO, parent, settings, rng)
        SWIN_NANO.validate(child)
        for stage in STAGES:
            for name in ("depth", "embed_dim"):
                stages.append(child[f"{name}_{stage}"] != parent[f"{name}_{stage}"])
            pairs = list(zip(blocks(child, stage), blocks(parent, stage), strict=False))
            same_depth += len(pairs)
            changed += sum(new != old for new, old in pairs)
    assert sum(stages) / len(stages) == pytest.approx(0.3 * 2 / 3, abs=0.03)
    assert changed / same_depth == pytest.approx(0.5 * 17 / 18, abs=0.03)


def test_search_finds_what_is_best_within_the_limits() -> None:
    calls: list[list[Architecture]] = []

    def evaluate(architectures: Sequence[Architecture]) -> list[float]:
        calls.append(list(architectures))
        return errors(architectures)

    found = search_subnets(SAMPLER, evaluate, SETTINGS, random.Random(0))
    assert [len(call) for call in calls] == [8] * 6
    assert len(found) == 48
    assert all(SWIN_NANO.flops(arch, 10) <= 3_000_000 for arch in found)
    assert min(found.values()) < min(errors(calls[0]))
    assert found == search_subnets(SAMPLER, errors, SETTINGS, random.Random(0))


def test_children_descend_from_the_best() -> None:
    """With stages left alone, their dimensions are those of a parent, the best but one or two."""
    calls: list[list[Architecture]] = []

    def evaluate(architectures: Sequence[Architecture]) -> list[float]:
        calls.append(list(architectures))
        return errors(architectures)

    settings = SETTINGS.model_copy(update={"mutate_stage": 1e-9, "generations": 1, "parents": 1})
    search_subnets(SAMPLER, evaluate, settings, random.Random(1))
    best = min(calls[0], key=lambda arch: errors([arch])[0])
    for child in calls[1]:
        for stage in STAGES:
            assert child[f"embed_dim_{stage}"] == best[f"embed_dim_{stage}"]
