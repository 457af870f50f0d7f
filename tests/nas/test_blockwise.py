"""Block-wise evolution: which blocks are changed, and how the swarm moves."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from helpers.measuring import Conditions, own_weights
from helpers.networks import SPACE, tiny

from autoprox.language import parse_expression
from autoprox.nas.architecture_swarm import (
    ArchitectureSwarm,
    CandidateLineage,
    SwarmParticle,
    block_positions,
)
from autoprox.nas.blockwise_evolution import BlockwiseParameters, search_blockwise
from autoprox.nas.candidate_measurement import SearchProxy
from autoprox.nas.searcher import Searcher
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.size_limits import SizeLimits

HEADS = "sum(heads)"


def searcher_of(proxy: str = HEADS, space: str = SPACE.name, seed: int = 0) -> Searcher:
    prepared, own = SearchProxy(parse_expression(proxy), by_block=True), get_space(space)
    return Searcher(SizeLimits(own, 10), prepared, own_weights(prepared, Conditions(own, {})), seed)


def swarm_of(
    *architectures: Architecture, **changed: float
) -> tuple[ArchitectureSwarm, list[SwarmParticle]]:
    searcher = searcher_of(space=architectures[0].space)
    searcher.score(architectures)
    swarm = ArchitectureSwarm(searcher, BlockwiseParameters(**changed))
    return swarm, swarm.particles()


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_each_block_is_found(seed: int) -> None:
    """A block is worth most with 6 heads; the best network is the widest of 12 such, or of 11."""
    searcher = searcher_of("sum(mul(width, heads))", seed=seed)
    search_blockwise(
        searcher, BlockwiseParameters(population=12, mutants=8, crossovers=8, steps=40)
    )
    best = searcher.ranked()[0]
    depth = best.architecture["depth"]
    assert depth in (11, 12)
    assert best.architecture["num_heads"] == (6,) * depth
    assert best.outcome.terms == (depth * 128 * 6,)
    assert len(searcher.candidates) == 12 + 39 * 16


def test_a_block_scores_by_the_powers_of_its_own_terms() -> None:
    searcher = searcher_of("mul(pow(sum(heads), 2), pow(sum(width), -0.5))")
    [candidate] = searcher.score([tiny(16, (1, 1.0), (3, 2.0))])
    [scores] = searcher.block_scores([candidate])
    assert scores == pytest.approx([1 / 4, 9 / 4])


def test_candidates_of_different_depth_move_together() -> None:
    """Where the best has no block, there is nothing to gain."""
    deep, short = tiny(16, (1, 1.0), (1, 1.0), (3, 1.0)), tiny(16, (4, 1.0), (4, 1.0))
    _, (best, other) = swarm_of(deep, short)
    assert [best.candidate.architecture, other.candidate.architecture] == [short, deep]
    assert other.to_best.tolist() == [3, 3, 0]
    assert best.to_best.tolist() == [0, 0]
    assert other.to_own.tolist() == [0, 0, 0]


def test_a_step_samples_two_parents_and_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of a particle is among the best so far, and all children have the same parents."""
    searcher, pairs = searcher_of("sum(mul(width, heads))"), []
    child, particles = ArchitectureSwarm.child, ArchitectureSwarm.particles
    populations: list[list[int]] = []

    def spied_child(
        self: ArchitectureSwarm, first: SwarmParticle, second: SwarmParticle
    ) -> Architecture:
        pairs.append((first.candidate.number, second.candidate.number))
        return child(self, first, second)

    def spied_particles(self: ArchitectureSwarm) -> list[SwarmParticle]:
        found = particles(self)
        populations.append([p.candidate.number for p in found])
        best = sorted(searcher.candidates, key=lambda c: (-c.outcome.terms[0], c.number))
        assert populations[-1] == [c.number for c in best[:10]]
        return found

    monkeypatch.setattr(ArchitectureSwarm, "child", spied_child)
    monkeypatch.setattr(ArchitectureSwarm, "particles", spied_particles)
    search_blockwise(searcher, BlockwiseParameters(population=10, mutants=4, crossovers=5, steps=6))
    steps = [pairs[i : i + 5] for i in range(0, 25, 5)]
    for population, step in zip(populations, steps, strict=True):
        assert len(set(step)) == 1
        assert step[0][0] != step[0][1]
        assert set(step[0]) <= set(population)
    assert all(set(one) != set(other) for one, other in pairwise(populations))


def velocity_by_hand(
    draws: random.Random, before: list[float], own: list[float], best: list[float]
) -> list[float]:
    """Equation 13 with w = 0.7 and g1 = g2 = 1.5."""
    ones = [draws.random() for _ in before]
    twos = [draws.random() for _ in before]
    rows = zip(before, ones, own, twos, best, strict=True)
    return [0.7 * v + 1.5 * r1 * p + 1.5 * r2 * g for v, r1, p, r2, g in rows]


def test_a_velocity_is_inherited() -> None:
    """Two generations, and between them the best of the lineage is the parent."""
    parent, leader = tiny(16, (2, 1.0), (1, 1.0)), tiny(16, (4, 1.0), (3, 1.0))
    swarm, [_, particle] = swarm_of(leader, parent, share=1.0)
    draws = random.Random()
    draws.setstate(swarm.searcher.rng.getstate())
    made = swarm.mutant(particle)
    first = velocity_by_hand(draws, [0, 0], [0, 0], [2, 2])
    swarm.searcher.score([made])
    [moved] = [p for p in swarm.particles() if p.candidate.architecture == made]
    n = min(2, made["depth"])
    assert moved.lineage.velocity[:n].tolist() == pytest.approx(first[:n])
    assert not moved.lineage.velocity[n:].any()
    score = [sum(a["num_heads"]) for a in (made, parent)]
    best = made if score[0] > score[1] else parent
    assert moved.lineage.best.architecture in ({made, parent} if score[0] == score[1] else {best})


def test_blocks_that_score_least_and_have_the_most_to_gain_are_first() -> None:
    _, [particle] = swarm_of(tiny(16, (3, 1.0), (1, 1.0), (4, 1.0), (2, 1.0)))
    rng = random.Random(0)
    assert particle.order(np.zeros(4), rng) == [1, 3, 0, 2]
    assert particle.order(np.array([0.0, 0.0, 5.0, 7.0]), rng) == [3, 2, 1, 0]
    assert particle.order(np.array([-1.0, 4.0, 0.5, 0.0]), rng) == [1, 3, 2, 0]


def test_a_mutant_of_the_best_has_its_least_blocks_drawn_anew() -> None:
    """Without velocities the share of 0.25 is the one of four with the fewest heads."""
    architecture = tiny(16, (3, 1.0), (2, 2.0), (4, 6.0), (1, 4.0))
    swarm, [particle] = swarm_of(architecture)
    changed = Counter(
        tuple(i for i in range(4) if mutant["num_heads"][i] != architecture["num_heads"][i])
        for mutant in (swarm.mutant(particle) for _ in range(10))
        if mutant["depth"] == 4
    )
    assert set(changed) <= {(), (3,)}
    assert changed[(3,)] >= 3


def test_a_child_has_the_blocks_that_score_higher_in_the_other() -> None:
    one, other = tiny(16, (3, 1.0), (1, 2.0), (4, 6.0)), tiny(64, (2, 4.0), (4, 4.0), (4, 4.0))
    swarm, particles = swarm_of(one, other)
    by_arch = {p.candidate.architecture: p for p in particles}
    assert swarm.child(by_arch[one], by_arch[other]) == tiny(16, (3, 1.0), (4, 4.0), (4, 6.0))
    assert swarm.child(by_arch[other], by_arch[one]) == tiny(64, (3, 1.0), (4, 4.0), (4, 4.0))


def test_further_children_have_some_of_these_blocks() -> None:
    one = tiny(16, *[(1, 1.0)] * 5)
    other = tiny(16, *[(4, 4.0)] * 5)
    swarm, particles = swarm_of(one, other)
    by_arch = {p.candidate.architecture: p for p in particles}
    children = [swarm.child(by_arch[one], by_arch[other]) for _ in range(12)]
    assert len(set(children)) == 12
    for child in children:
        blocks = list(zip(child["num_heads"], child["mlp_ratio"], strict=True))
        assert set(blocks) == {(1, 1.0), (4, 4.0)}


def test_where_no_block_scores_higher_the_first_is_mutated() -> None:
    one, other = tiny(16, (4, 1.0), (4, 2.0)), tiny(16, (1, 1.0), (1, 2.0))
    swarm, (first, second) = swarm_of(one, other)
    made = [swarm.child(first, second) for _ in range(5)]
    assert len({*made, one, other}) == 7


def test_choices_of_blocks_and_of_the_network() -> None:
    two = tiny(16, (1, 1.0), (2, 2.0))
    assert block_positions(SPACE, two) == [
        {("mlp_ratio", 0), ("num_heads", 0)},
        {("mlp_ratio", 1), ("num_heads", 1)},
    ]


def test_choices_of_a_stage_belong_to_its_blocks() -> None:
    """PiT's heads are a stage's; its depths change how many blocks there are."""
    choices = {"base_dim": 16, "mlp_ratio": 4, "depth": [1, 6, 4], "num_heads": [2, 4, 8]}
    pit = get_space("pit")
    owned = block_positions(pit, pit.architecture(choices))
    stages = [0] + [1] * 6 + [2] * 4
    assert owned == [{("num_heads", stage)} for stage in stages]


def test_ranked_terms_are_combined_over_the_blocks() -> None:
    """By heads the ranks are 3 1 2, by small MLPs 1 2 3: in sum the second block is the least."""
    searcher = searcher_of("add(rank(sum(heads)), rank(sum(one)))")
    [candidate] = searcher.score([tiny(16, (4, 1.0), (1, 1.0), (2, 1.0))])
    [scores] = searcher.block_scores([candidate])
    assert scores.tolist() == [3 + 2, 1 + 2, 2 + 2]


def test_a_mutant_keeps_the_other_blocks() -> None:
    _, [particle] = swarm_of(tiny(16, (3, 1.0), (1, 2.0), (4, 6.0), (2, 4.0)))
    rng, kept, changed = random.Random(0), 0, Counter[str]()
    parent = particle.candidate.architecture
    for _ in range(200):
        mutant = particle.mutant([1], rng)
        changed.update(k for k in ("hidden_dim", "depth") if mutant[k] != parent[k])
        depth = min(4, mutant["depth"])
        strong = [i for i in (0, 2, 3) if i < depth]
        for name in ("num_heads", "mlp_ratio"):
            assert [mutant[name][i] for i in strong] == [parent[name][i] for i in strong]
        kept += depth < 2 or mutant["num_heads"][1] == 1
    assert 20 <= kept <= 90  # one in five draws is the same again
    assert 5 <= changed["hidden_dim"] <= 30  # one in ten is drawn anew, of which a seventh stays
    assert 5 <= changed["depth"] <= 30


def test_a_change_that_breaks_a_rule_between_choices_is_made_again() -> None:
    """Each stage of PiT must be a multiple of the one before."""
    pit = get_space("pit")
    choices = {"base_dim": 16, "mlp_ratio": 4, "depth": [1, 6, 4], "num_heads": [4, 4, 4]}
    _, [particle] = swarm_of(pit.architecture(choices))
    mutants = [particle.mutant(range(5), random.Random(seed)) for seed in range(40)]
    for mutant in mutants:
        pit.validate(mutant)
    assert len(set(mutants)) > 5


def test_scores_that_are_too_large_do_not_overflow() -> None:
    swarm, [particle] = swarm_of(tiny(16, (1, 1.0), (2, 1.0)))
    huge = np.array([1e100, -1e100])
    extreme = SwarmParticle(
        SPACE,
        particle.candidate,
        huge,
        CandidateLineage(particle.candidate, huge),
        -2 * huge,
        2 * huge,
    )
    SPACE.validate(swarm.mutant(extreme))
