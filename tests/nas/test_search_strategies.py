"""The strategies, on proxies of the structure alone: candidates need no network."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.measuring import Conditions, own_weights
from helpers.networks import SPACE, tiny

from autoprox.errors import MeasurementError
from autoprox.files.human_readable_sizes import SizeRange
from autoprox.language import parse_expression
from autoprox.nas import ageing_evolution, blockwise_evolution, etas_search, random_search
from autoprox.nas.architecture_evaluators import ArchitectureEvaluator, evaluate_one_by_one
from autoprox.nas.candidate_measurement import MeasurementOutcome, SearchProxy
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.autoformer import AutoFormerNanoSpace
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.searchspaces.space import one, per_layer_field

HEADS = "sum(mul(width, heads))"
COMPARED = f"sub(rank({HEADS}), rank(sum(one)))"
SMALL = {
    "random": random_search.RandomParameters(samples=60),
    "blockwise": blockwise_evolution.BlockwiseParameters(
        population=20, mutants=6, crossovers=4, steps=9
    ),
    "etas": etas_search.ETASParameters(samples=20, mutants=10, steps=4),
    "evolution": ageing_evolution.AgeingParameters(population=20, tournament=5, mutants=8, steps=5),
}


def searcher_of(
    proxy: str = HEADS,
    space: SearchSpace = SPACE,
    seed: int = 0,
    params: SizeRange = (None, None),
    scorer: Any = None,
    evaluator: Callable[[Architecture], Any] | None = None,
    **options: Any,
) -> Searcher:
    """A searcher; the evaluator, unless another is given, counts heads."""
    prepared = SearchProxy(parse_expression(proxy), by_block=True)
    value = evaluator or (lambda architecture: sum(b.heads for b in space.blocks(architecture)))
    return Searcher(
        SizeLimits(space, 10, params),
        prepared,
        scorer or own_weights(prepared, Conditions(space, {})),
        seed,
        evaluator=ArchitectureEvaluator("heads", evaluate_one_by_one(value)),
        **options,
    )


def run(name: str, **options: Any) -> Searcher:
    searcher = searcher_of(**options)
    SEARCH_STRATEGIES[name].search(searcher, SMALL[name])
    return searcher


def architectures(searcher: Searcher) -> list[Architecture]:
    return [candidate.architecture for candidate in searcher.candidates]


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
@pytest.mark.parametrize("space", ["autoformer-nano", "pit", "flexibert"])
def test_candidates_differ_and_are_valid(name: str, space: str) -> None:
    searcher = run(name, space=get_space(space))
    found = architectures(searcher)
    assert len(set(found)) == len(found) <= SMALL[name].candidates
    assert len(found) > 0.8 * SMALL[name].candidates
    for architecture in found:
        searcher.space.validate(architecture)


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
def test_candidates_are_within_the_limits(name: str) -> None:
    searcher = run(name, params=(40_000, 60_000))
    sizes = [SPACE.params(a, 10) for a in architectures(searcher)]
    assert 40_000 <= min(sizes) <= max(sizes) <= 60_000
    assert len(sizes) > 0.8 * SMALL[name].candidates


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
def test_a_search_depends_on_its_seed_alone(name: str) -> None:
    state = random.getstate()
    first, again, other = (run(name, proxy=COMPARED, seed=seed) for seed in (1, 1, 2))
    assert architectures(first) == architectures(again)
    assert first.scores() == again.scores()
    assert architectures(first) != architectures(other)
    assert random.getstate() == state


@pytest.mark.parametrize("name", ["blockwise", "etas", "evolution"])
def test_a_search_finds_more_than_chance(name: str) -> None:
    """The mean over seeds of the best score, after as many candidates."""
    count = SMALL[name].candidates

    def best(searcher: Searcher) -> float:
        return max(searcher.scores().values())

    def chance(seed: int) -> float:
        searcher = searcher_of(seed=seed)
        random_search.search_randomly(searcher, random_search.RandomParameters(samples=count))
        return best(searcher)

    searched = [best(run(name, seed=seed)) for seed in range(8)]
    assert np.mean(searched) > np.mean([chance(seed) for seed in range(8)])


def test_random_search_ends_where_the_limits_hold_no_more() -> None:
    """Below 3,000 parameters there are 1-block networks of width 16, and nothing else."""
    fields = {
        "hidden_dim": one(16, 24, 32),
        "depth": one(1, 2, 3),
        "mlp_ratio": per_layer_field(1.0, 2.0, 4.0),
        "num_heads": per_layer_field(1, 2, 4),
    }
    few = AutoFormerNanoSpace(SPACE.name, "with fewer options", fields)
    searcher = searcher_of(space=few, params=(None, 3_000))
    random_search.search_randomly(searcher, random_search.RandomParameters(samples=500))
    blocks = product((1, 2, 4), (1.0, 2.0, 4.0))
    within = {a for a in (tiny(16, block) for block in blocks) if SPACE.params(a, 10) <= 3_000}
    assert 1 < len(within) < 9
    assert set(architectures(searcher)) == within


@pytest.mark.parametrize("params", [(None, 80_000_000), (75_000_000, 80_000_000)])
def test_a_population_has_every_option_that_the_limits_allow(params: SizeRange) -> None:
    """Of GPT-2s below 80 M parameters one in 2,000 has the widest embedding."""
    space = get_space("gpt2-hw")
    searcher = searcher_of(space=space, params=params)
    population = searcher.population(30)
    assert len(set(population)) == 30
    assert all((params[0] or 0) <= space.params(a) <= 80_000_000 for a in population)
    widths = {192, 384, 768} if params[0] is None else {768}
    assert {architecture["embed_dim"] for architecture in population} == widths


def test_a_draw_outside_the_limits_is_led_into_them() -> None:
    searcher = searcher_of(params=(None, 20_000))
    drawn = searcher.draw(SPACE.largest)
    assert SPACE.params(drawn, 10) <= 20_000


def test_limits_that_nothing_meets_give_no_samples() -> None:
    assert searcher_of(params=(900_000_000, None)).samples(1) == []


def test_a_draw_is_new_if_it_can_be() -> None:
    searcher = searcher_of()
    [first] = searcher.samples(1)
    drawn = iter([first, first, tiny(16, (1, 1.0)), first])
    assert searcher.draw(lambda: next(drawn)) == tiny(16, (1, 1.0))
    similar = searcher.draw(lambda: first)
    assert similar != first
    assert set(searcher.samples(50)).isdisjoint({first, similar})


def test_a_draw_is_known_if_nothing_new_is_left() -> None:
    searcher = searcher_of(params=(None, 2_600))
    found = searcher.samples(1_000)
    assert searcher.exhausted
    assert searcher.draw(lambda: found[0]) in found


class Failing:
    """A scorer for which some architectures fail; the score is the number of heads."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.fails = fails
        self.measured: list[Architecture] = []

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[MeasurementOutcome], None]
    ) -> None:
        for architecture in architectures:
            self.measured.append(architecture)
            heads = [float(b.heads) for b in SPACE.blocks(architecture)]
            failed = MeasurementOutcome(failure="broken")
            good = MeasurementOutcome((sum(heads),), (tuple(heads),))
            record(failed if self.fails(len(self.measured)) else good)


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
def test_what_fails_is_kept_but_never_ranked(name: str) -> None:
    scorer = Failing(lambda count: count % 3 == 0)
    searcher = run(name, scorer=scorer)
    assert len(searcher.candidates) == len(scorer.measured)
    assert len(set(scorer.measured)) == len(scorer.measured)
    assert searcher.failures() == {"broken": len(scorer.measured) // 3}
    ranked = searcher.ranked()
    assert len(ranked) == len(searcher.candidates) - len(scorer.measured) // 3
    assert not any(candidate.failure for candidate in [*ranked, *searcher.evaluated()])


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
def test_a_search_of_which_everything_fails_ends(name: str) -> None:
    with pytest.raises(MeasurementError, match=r"all \d+ failed: broken"):
        run(name, scorer=Failing(lambda count: True))


def test_ranks_are_among_all_candidates_seen() -> None:
    searcher = searcher_of("rank(sum(width))")
    narrow, middle, wide = (tiny(width, (1, 1.0)) for width in (16, 32, 64))
    [first] = searcher.score([middle])
    assert searcher.scores()[first.number] == 1.0
    searcher.score([narrow, wide])
    assert searcher.scores()[first.number] == 2.0
    assert [c.architecture for c in searcher.ranked()] == [wide, middle, narrow]


def test_scores_are_not_measured_twice() -> None:
    scorer = Failing(lambda count: False)
    searcher = searcher_of(scorer=scorer)
    one, other = tiny(16, (1, 1.0)), tiny(16, (2, 1.0))
    assert [c.number for c in searcher.score([one, other, one])] == [0, 1]
    assert [c.number for c in searcher.score([other])] == [1]
    assert scorer.measured == [one, other]


def test_evolution_takes_the_best_of_a_sample_of_the_young(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher, settings = searcher_of(), SMALL["evolution"]
    mutate, parents = searcher.mutate, Counter[Architecture]()

    def spied(architecture: Architecture, probability: float) -> Architecture:
        young = searcher.candidates[-settings.population :]
        scores = sorted((searcher.scores()[c.number] for c in young), reverse=True)
        [parent] = [c for c in young if c.architecture == architecture]
        # The best of 5 out of 20 is at least the 16th.
        assert searcher.scores()[parent.number] >= scores[15]
        parents[architecture] += 1
        return mutate(architecture, probability)

    monkeypatch.setattr(searcher, "mutate", spied)
    ageing_evolution.evolve_by_age(searcher, settings)
    assert parents.total() == 40


def test_etas_evaluates_the_best_by_the_proxy_and_mutates_the_best_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: dict[Architecture, float] = {}

    def value(architecture: Architecture) -> float:
        values[architecture] = random.Random(architecture.digest).random()
        return values[architecture]

    searcher, settings = searcher_of(evaluator=value), SMALL["etas"]
    mutate = searcher.mutate

    def spied(architecture: Architecture, probability: float) -> Architecture:
        assert architecture in sorted(values, key=values.__getitem__, reverse=True)[:3]
        return mutate(architecture, probability)

    monkeypatch.setattr(searcher, "mutate", spied)
    etas_search.search_etas(searcher, settings)
    assert searcher.evaluations == len(values) == 3 + 4 * 3
    begin = 0
    for end in (20, 30, 40, 50, 60):
        batch = searcher.candidates[begin:end]
        best = sorted(batch, key=lambda c: (-c.outcome.terms[0], c.number))[:3]
        assert {c.number for c in batch if c.value is not None} == {c.number for c in best}
        begin = end
    assert searcher.evaluated()[0].value == max(values.values())


@pytest.mark.parametrize(("patience", "steps"), [(1, 2), (3, 4), (5, 6), (10, 9)])
def test_etas_stops_where_nothing_better_is_evaluated(patience: int, steps: int) -> None:
    """Values of 1, 2, 2, ...: the last improvement is that of the first step after the samples."""
    values = iter([1.0] * 3 + [2.0] * 100)
    searcher = searcher_of(evaluator=lambda architecture: next(values))
    etas_search.search_etas(
        searcher, etas_search.ETASParameters(samples=20, mutants=6, steps=9, patience=patience)
    )
    assert searcher.steps == 1 + steps
    assert searcher.evaluations == 3 + 3 * steps


def test_lower_may_be_better_for_an_evaluator() -> None:
    searcher = searcher_of()
    width = evaluate_one_by_one(lambda architecture: architecture["hidden_dim"])
    searcher.evaluator = ArchitectureEvaluator("heads", width, lower_is_better=True)
    candidates = searcher.score([tiny(width, (1, 1.0)) for width in (32, 16, 64)])
    searcher.evaluate(candidates)
    assert [c.value for c in searcher.evaluated()] == [16, 32, 64]
