"""What every strategy works with: candidates within the limits, their scores, their evaluation."""

from __future__ import annotations

import math
import random
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from autoprox.errors import MeasurementError
from autoprox.files.documents import Excerpt, Finite
from autoprox.files.json_lines import Record
from autoprox.nas.evaluators import Evaluator
from autoprox.nas.proxy import Outcome, SplitProxy
from autoprox.scoring.correlations import Floats
from autoprox.scoring.fitness import beyond_size
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits, Sizes
from autoprox.searchspaces.space import OptionValue


class Scored(Excerpt):
    """What must be known of a candidate that was scored."""

    arch: dict[str, Any]
    terms: list[Finite]
    blocks: list[list[Finite]] | None = None
    failure: str | None = None
    params: int
    flops: int


class Evaluated(Excerpt):
    """What must be known of a candidate that was evaluated."""

    candidate: int
    value: Finite | None
    failure: str | None


@dataclass(eq=False, slots=True)
class Candidate:
    """An architecture that was measured; one that failed, at whatever, is never ranked."""

    number: int
    architecture: Architecture
    sizes: Sizes
    outcome: Outcome
    failure: str | None = None
    value: float | None = None  # that the evaluator gave


class Ranking:
    """Scores by the candidates' numbers, and the places of these."""

    def __init__(self, scores: Iterable[tuple[int, float]]) -> None:
        self.scores = dict(scores)
        self.order = sorted(place_of(number, score) for number, score in self.scores.items())

    def add(self, number: int, score: float) -> None:
        """One more, where the others keep their scores."""
        self.scores[number] = score
        insort(self.order, place_of(number, score))


def place_of(number: int, score: float) -> tuple[float, int]:
    """What a ranking sorts by: the best first, of equals the first, those without a score last."""
    return -score if math.isfinite(score) else math.inf, number


class Scorer(Protocol):
    """Measures architectures, and records their outcomes in their order."""

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[Outcome], None]
    ) -> None: ...


class Searcher:
    """The candidates so far, and ways to new ones; all randomness is from `rng`.

    `score` and `evaluate` take what is on record from there, so that a search that begins again
    goes on where it stopped.
    """

    def __init__(
        self,
        limits: SizeLimits,
        proxy: SplitProxy,
        scorer: Scorer,
        seed: int = 0,
        *,
        evaluator: Evaluator | None = None,
        given_size: bool = False,
        only: Sequence[Architecture] | None = None,
        scored: Record | None = None,
        evaluated: Record | None = None,
        on_candidate: Callable[[Searcher], None] = lambda searcher: None,
        on_step: Callable[[Searcher], None] = lambda searcher: None,
    ) -> None:
        self.space = limits.space
        self.limits = limits
        self.proxy = proxy
        self.evaluator = evaluator
        self.given_size = given_size  # whether scores are those beyond what size explains
        self.only = only  # all that there is to choose from, instead of the space
        self.rng = random.Random(seed)
        self.candidates: list[Candidate] = []
        self.asked: list[int] = []  # numbers of the candidates that were evaluated, in order
        self.steps = 0
        self._scorer = scorer
        self._scored = scored or Record()
        self._evaluated = evaluated or Record()
        self._on_candidate = on_candidate
        self._on_step = on_step
        self.exhausted = False  # whether there is no architecture left that wasn't drawn
        self._sampler = ArchitectureSampler(limits)
        self._drawn: dict[Architecture, None] = {}
        self._spare: deque[Architecture] = deque()  # drawn, and not used so far
        self._known: dict[Architecture, Candidate] = {}
        self._failures: Counter[str] = Counter()
        self._evaluated_ones: list[Candidate] = []
        # A score that depends on no other candidate is known for good.
        self._ranking: Ranking | None = None if self._comparing else Ranking([])

    @property
    def _comparing(self) -> bool:
        """Whether the score of a candidate depends on the others."""
        return self.given_size or self.proxy.compares

    def samples(self, count: int) -> list[Architecture]:
        """Return new random architectures, all different; fewer if there are no more."""
        found: list[Architecture] = []
        while len(found) < count and (new := self._new()) is not None:
            found.append(new)
        return found

    def _new(self, **fixed: OptionValue) -> Architecture | None:
        """Return a new random architecture with these options; None if there is none."""
        if self._spare and not fixed:
            return self._spare.popleft()
        if self.only is None:
            new = self._sampler.new(self.rng, self._drawn, fixed=fixed)
        else:
            left = [architecture for architecture in self.only if architecture not in self._drawn]
            new = self.rng.choice(left) if left else None
        if new is not None:
            self._drawn[new] = None
        elif not fixed:
            self.exhausted = True
        return new

    def population(self, count: int) -> list[Architecture]:
        """Return new random architectures to begin an evolution with, all different.

        An option of a choice for the whole network may be in none of them, and mutations, one
        within the limits after another, hardly lead to it. So the last of them make room for one
        with each option that they lack, as far as the limits allow it.
        """
        found = self.samples(count)
        lacking = [
            {name: option}
            for name, field in self.space.fields.items()
            if not field.listed
            for option in field.options[0]
            if all(architecture[name] != option for architecture in found)
        ]
        made = (self._new(**fixed) for fixed in lacking)
        new = list(islice((a for a in made if a is not None), count))
        kept = min(len(found), count - len(new))
        self._spare.extend(found[kept:])
        return [*found[:kept], *new]

    def mutate(self, architecture: Architecture, probability: float) -> Architecture:
        """Return a mutant, each of whose values was drawn anew with this probability."""
        return self.draw(lambda: self.space.mutate(architecture, self.rng, probability))

    def draw(self, make: Callable[[], Architecture]) -> Architecture:
        """Return what `make` makes, or something like it: new, and within the limits.

        If everything within the limits was drawn before, it is the last of that.
        """
        new = None if self.exhausted else self._sampler.varied(make, self.rng, self._drawn)
        if new is None:
            return self._new() or next(reversed(self._drawn))
        self._drawn[new] = None
        return new

    def score(self, architectures: Iterable[Architecture]) -> list[Candidate]:
        """The candidates that these are, without those that failed; none is measured twice."""
        wanted = list(dict.fromkeys(architectures))
        new = deque(a for a in wanted if a not in self._known)
        while new and (line := self._scored.next()) is not None:
            self._restore(new.popleft(), line)
        measured = tuple(new)
        self._scorer.measure(measured, lambda outcome: self._record(new.popleft(), outcome))
        self._require_valid()
        return [c for c in (self._known[a] for a in wanted) if not c.failure]

    def evaluate(self, candidates: Iterable[Candidate], budget: int = 0) -> None:
        """Ask the evaluator for the values of those that have none, in one batch.

        `budget` is the most evaluations that the search will still ask for, these included. An
        answer is recorded when it arrives; candidates take them in the order of the batch.
        """
        asked = [c for c in dict.fromkeys(candidates) if c.value is None and not c.failure]
        answers = self._recorded(asked)
        left = [c for c in asked if c.number not in answers]
        if left:
            if self.evaluator is None:
                raise RuntimeError("a search without an evaluator has nobody to ask")
            batch, budget = [c.architecture for c in left], max(len(left), budget - len(answers))
            for index, value, failure in self.evaluator.evaluate(batch, budget):
                number = left[index].number
                answers[number] = value, failure
                line = {"candidate": number, "value": value, "failure": failure}
                self._evaluated.append(line)
        for candidate in asked:
            candidate.value, candidate.failure = answers[candidate.number]
            self._count(candidate)

    @property
    def evaluations(self) -> int:
        """How many candidates the evaluator was asked for."""
        return len(self.asked)

    def scores(self) -> Mapping[int, float]:
        """The score of each valid candidate, by its number: `rank` ranks all of them."""
        return self._ranked().scores

    def _ranked(self) -> Ranking:
        """Of all valid candidates: anew where their scores depend on each other."""
        if self._ranking is None:
            self._require_valid()
            valid = [c for c in self.candidates if not c.failure]
            self._ranking = Ranking(
                zip((c.number for c in valid), self._values(valid), strict=True)
            )
        return self._ranking

    def _values(self, valid: Sequence[Candidate]) -> list[float]:
        values = self.proxy.scores(np.array([c.outcome.terms for c in valid]))
        if self.given_size:
            values = beyond_size(values, np.array([float(c.sizes.params) for c in valid]))
        return list(map(float, values))

    def _require_valid(self) -> None:
        """Without any, there is nothing to search on."""
        if self._failures.total() == len(self.candidates):
            raise MeasurementError(
                f"a candidate must be valid to search on, but all {len(self.candidates)} "
                f"failed: {self.candidates[0].failure}"
            )

    def score_of(self, candidate: Candidate) -> float | None:
        """The score of a candidate; None where the combination of its terms isn't finite."""
        score = self.scores()[candidate.number]
        return score if math.isfinite(score) else None

    def ranked(self, candidates: Iterable[Candidate] | None = None) -> list[Candidate]:
        """The valid ones of these, or of all, best first; of equals, the first found."""
        if candidates is None:
            return self.best(len(self.candidates))
        scores = self.scores()
        valid = (c for c in candidates if not c.failure)
        return sorted(valid, key=lambda c: place_of(c.number, scores[c.number]))

    def best(self, count: int) -> list[Candidate]:
        """The first of all that are valid, as they are ranked."""
        return [self.candidates[number] for _, number in self._ranked().order[:count]]

    def evaluated(self) -> list[Candidate]:
        """The candidates with a value of the evaluator, best first."""
        sign = 1 if self.evaluator is None or self.evaluator.lower_is_better else -1
        return sorted(self._evaluated_ones, key=lambda c: (sign * (c.value or 0.0), c.number))

    def block_scores(self, candidates: Sequence[Candidate]) -> list[Floats]:
        """[blocks] of each candidate: what its blocks score alone, among all these blocks."""
        terms = [np.array(c.outcome.blocks).T for c in candidates]  # each [blocks, terms]
        scores = self.proxy.scores(np.concatenate(terms))
        return np.split(scores, np.cumsum([len(own) for own in terms])[:-1])

    def largest(self) -> Candidate:
        """The valid candidate of the most parameters; of equals the one that is ranked first."""
        return max(self.ranked(), key=lambda c: c.sizes.params)

    def step(self) -> None:
        """Tell those who watch that the strategy has made a step."""
        self.steps += 1
        self._on_step(self)

    def failures(self) -> dict[str, int]:
        """How many candidates failed for each reason."""
        return dict(self._failures)

    def _record(self, architecture: Architecture, outcome: Outcome) -> None:
        candidate = self._add(architecture, outcome)
        line = {
            "arch": architecture.to_json()["choices"],
            **candidate.sizes._asdict(),
            "terms": outcome.terms,
            "failure": outcome.failure,
        }
        self._scored.append({**line, "blocks": outcome.blocks} if self.proxy.by_block else line)
        self._on_candidate(self)

    def _restore(self, architecture: Architecture, line: Mapping[str, Any]) -> None:
        if line.get("arch") != architecture.to_json()["choices"] or "terms" not in line:
            raise self._scored.error("must be the architecture that the seed leads to, but is not")
        failure, terms = line.get("failure"), tuple(line["terms"])
        if len(terms) != (0 if failure else len(self.proxy.terms)):
            raise self._scored.error("must have a number for each term of the proxy, but has not")
        blocks = tuple(map(tuple, line.get("blocks") or ()))
        self._add(architecture, Outcome(terms, blocks, failure))

    def _add(self, architecture: Architecture, outcome: Outcome) -> Candidate:
        self._drawn[architecture] = None
        sizes = self.limits.sizes(architecture)
        number = len(self.candidates)
        candidate = Candidate(number, architecture, sizes, outcome, outcome.failure)
        self._known[architecture] = candidate
        self.candidates.append(candidate)
        if candidate.failure:
            self._failures[candidate.failure] += 1
        elif self._comparing:
            self._ranking = None
        elif self._ranking is not None:
            self._ranking.add(number, *self._values([candidate]))
        return candidate

    def _recorded(self, asked: Sequence[Candidate]) -> dict[int, tuple[float | None, str | None]]:
        """Return the answers of a batch that are on record, in whatever order they arrived."""
        numbers = {candidate.number for candidate in asked}
        answers: dict[int, tuple[float | None, str | None]] = {}
        while len(answers) < len(numbers) and (line := self._evaluated.next()) is not None:
            number = line.get("candidate")
            if number not in numbers or number in answers:
                rule = "must be the candidate that the seed leads to, but is not"
                raise self._evaluated.error(rule)
            answers[number] = line["value"], line["failure"]
        return answers

    def _count(self, candidate: Candidate) -> None:
        """Take note of a candidate that was evaluated."""
        self.asked.append(candidate.number)
        if candidate.value is not None:
            self._evaluated_ones.append(candidate)
        if candidate.failure:
            self._failures[candidate.failure] += 1
            self._ranking = None
