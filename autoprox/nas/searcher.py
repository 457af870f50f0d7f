"""The candidates of a search, within its limits, with their scores and evaluations."""

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
from autoprox.files.json_documents import Finite, PartialJSONDocument
from autoprox.files.json_lines import ReplayJournal
from autoprox.nas.architecture_evaluators import ArchitectureEvaluator
from autoprox.nas.candidate_measurement import (
    MeasurementOutcome,
    NamedSearchProxy,
    SearchProxy,
)
from autoprox.scoring.correlations import Floats
from autoprox.scoring.fitness_correlations import size_adjusted
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import ArchitectureSizes, SizeLimits
from autoprox.searchspaces.space import OptionValue


class ScoredLine(PartialJSONDocument):
    """The required fields of a scored candidate's line."""

    arch: dict[str, Any]
    terms: list[Finite]
    blocks: list[list[Finite]] | None = None
    failure: str | None = None
    params: int
    flops: int


class EvaluatedLine(PartialJSONDocument):
    """The required fields of an evaluated candidate's line."""

    candidate: int
    value: Finite | None
    failure: str | None


@dataclass(eq=False, slots=True)
class Candidate:
    """An architecture that was measured; one that failed in any way is never ranked."""

    number: int
    architecture: Architecture
    sizes: ArchitectureSizes
    outcome: MeasurementOutcome
    failure: str | None = None
    value: float | None = None  # from the evaluator


class CandidateScorer(Protocol):
    """Measures architectures, and records their outcomes in their order."""

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[MeasurementOutcome], None]
    ) -> None: ...


class Searcher:
    """The candidates so far, and ways to new ones; all randomness comes from `rng`.

    `score` and `evaluate` first take what is on record, so that a resumed search continues where it
    stopped.
    """

    def __init__(
        self,
        limits: SizeLimits,
        proxy: SearchProxy | NamedSearchProxy,
        scorer: CandidateScorer,
        seed: int = 0,
        *,
        evaluator: ArchitectureEvaluator | None = None,
        adjusts_for_size: bool = False,
        only: Sequence[Architecture] | None = None,
        scored: ReplayJournal | None = None,
        evaluated: ReplayJournal | None = None,
        on_candidate: Callable[[Searcher], None] = lambda searcher: None,
        on_step: Callable[[Searcher], None] = lambda searcher: None,
    ) -> None:
        """With `size_adjusted`, scores are those beyond what size explains.

        `only` are the architectures to choose from instead of the space.
        """
        self.space = limits.space
        self.limits = limits
        self.proxy = proxy
        self.evaluator = evaluator
        self.adjusts_for_size = adjusts_for_size
        self.only = only
        self.rng = random.Random(seed)
        self.candidates: list[Candidate] = []
        self.asked: list[int] = []  # numbers of the candidates that were evaluated, in order
        self.steps = 0
        self.exhausted = False  # whether every architecture was drawn
        self._scorer = scorer
        self._scored = scored or ReplayJournal()
        self._evaluated = evaluated or ReplayJournal()
        self._on_candidate = on_candidate
        self._on_step = on_step
        self._sampler = ArchitectureSampler(limits)
        self._drawn: dict[Architecture, None] = {}
        self._spare: deque[Architecture] = deque()  # drawn, but not used yet
        self._known: dict[Architecture, Candidate] = {}
        self._failures: Counter[str] = Counter()
        # If a score depends on other candidates, all are computed again after each new one.
        self._comparing = adjusts_for_size or proxy.compares
        self._scores: dict[int, float] = {}
        self._order: list[tuple[float, int]] = []
        self._outdated = False

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

        An option of a choice for the whole network may be in none of them, and mutations within the
        limits rarely lead to it. The last of them are therefore replaced by one architecture for
        each option that they lack, as far as the limits allow it.
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
        """Return a new mutant, each of whose values is redrawn with this probability."""
        return self.draw(lambda: self.space.mutate(architecture, self.rng, probability))

    def draw(self, make: Callable[[], Architecture]) -> Architecture:
        """Return what `make` makes, or a similar architecture: new, and within the limits.

        If everything within the limits was drawn before, the last one drawn is returned.
        """
        new = None if self.exhausted else self._sampler.varied(make, self.rng, self._drawn)
        if new is None:
            return self._new() or next(reversed(self._drawn))
        self._drawn[new] = None
        return new

    def score(self, architectures: Iterable[Architecture]) -> list[Candidate]:
        """Return the candidates of these architectures that are valid; none is measured twice."""
        wanted = list(dict.fromkeys(architectures))
        new = deque(a for a in wanted if a not in self._known)
        while new and (line := self._scored.next()) is not None:
            self._restore(new.popleft(), line)
        self._scorer.measure(tuple(new), lambda outcome: self._record(new.popleft(), outcome))
        self._require_valid()
        return [c for c in (self._known[a] for a in wanted) if not c.failure]

    def _record(self, architecture: Architecture, outcome: MeasurementOutcome) -> None:
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
        self._add(architecture, MeasurementOutcome(terms, blocks, failure))

    def _add(self, architecture: Architecture, outcome: MeasurementOutcome) -> Candidate:
        self._drawn[architecture] = None
        number, sizes = len(self.candidates), self.limits.sizes(architecture)
        candidate = Candidate(number, architecture, sizes, outcome, outcome.failure)
        self._known[architecture] = candidate
        self.candidates.append(candidate)
        if candidate.failure:
            self._failures[candidate.failure] += 1
        elif self._comparing:
            self._outdated = True
        elif not self._outdated:
            [score] = self._compute_scores([candidate])
            self._scores[number] = score
            insort(self._order, _rank_key(number, score))
        return candidate

    def evaluate(self, candidates: Iterable[Candidate], budget: int = 0) -> None:
        """Ask the evaluator in one batch for the values of those that have none.

        `budget` is the most evaluations that the search will still ask for, these included. An
        answer is recorded when it arrives; candidates take them in the order of the batch.
        """
        asked = {c.number: c for c in candidates if c.value is None and not c.failure}
        answers: dict[int, tuple[float | None, str | None]] = {}
        # Answers are on record in the order in which they arrived.
        while len(answers) < len(asked) and (line := self._evaluated.next()) is not None:
            number = line.get("candidate")
            if number not in asked or number in answers:
                rule = "must be the candidate that the seed leads to, but is not"
                raise self._evaluated.error(rule)
            answers[number] = line["value"], line["failure"]
        if left := [c for number, c in asked.items() if number not in answers]:
            if self.evaluator is None:
                raise RuntimeError("a search without an evaluator has nobody to ask")
            batch, budget = [c.architecture for c in left], max(len(left), budget - len(answers))
            for index, value, failure in self.evaluator.evaluate(batch, budget):
                number = left[index].number
                answers[number] = value, failure
                self._evaluated.append({"candidate": number, "value": value, "failure": failure})
        for number, candidate in asked.items():
            candidate.value, candidate.failure = answers[number]
            self.asked.append(number)
            if candidate.failure:
                self._failures[candidate.failure] += 1
                self._outdated = True

    @property
    def evaluations(self) -> int:
        """The number of candidates that the evaluator was asked for."""
        return len(self.asked)

    def scores(self) -> Mapping[int, float]:
        """Return the score of each valid candidate by its number: `rank` ranks all of them."""
        if self._outdated:
            self._require_valid()
            valid = [c for c in self.candidates if not c.failure]
            numbers = [candidate.number for candidate in valid]
            self._scores = dict(zip(numbers, self._compute_scores(valid), strict=True))
            self._order = sorted(map(_rank_key, numbers, self._scores.values()))
            self._outdated = False
        return self._scores

    def _compute_scores(self, valid: Sequence[Candidate]) -> list[float]:
        architectures = [candidate.architecture for candidate in valid]
        values = self.proxy.scores(np.array([c.outcome.terms for c in valid]), architectures)
        if self.adjusts_for_size:
            values = size_adjusted(values, np.array([float(c.sizes.params) for c in valid]))
        return list(map(float, values))

    def _require_valid(self) -> None:
        if self._failures.total() == len(self.candidates):
            raise MeasurementError(
                f"a candidate must be valid to search on, but all {len(self.candidates)} "
                f"failed: {self.candidates[0].failure}"
            )

    def score_of(self, candidate: Candidate) -> float | None:
        """Return the score of a candidate; None if the combination of its terms isn't finite."""
        score = self.scores()[candidate.number]
        return score if math.isfinite(score) else None

    def ranked(self, candidates: Iterable[Candidate] | None = None) -> list[Candidate]:
        """Return the valid ones of these or of all, best first; of equals, the first found."""
        if candidates is None:
            return self.best(len(self.candidates))
        scores = self.scores()
        valid = (c for c in candidates if not c.failure)
        return sorted(valid, key=lambda c: _rank_key(c.number, scores[c.number]))

    def best(self, count: int) -> list[Candidate]:
        """Return the best valid candidates."""
        self.scores()
        return [self.candidates[number] for _, number in self._order[:count]]

    def evaluated(self) -> list[Candidate]:
        """Return the candidates with a value from the evaluator, best first."""
        sign = 1 if self.evaluator is None or self.evaluator.lower_is_better else -1
        found = (c for c in map(self.candidates.__getitem__, self.asked) if c.value is not None)
        return sorted(found, key=lambda c: (sign * (c.value or 0.0), c.number))

    def block_scores(self, candidates: Sequence[Candidate]) -> list[Floats]:
        """Return the scores [blocks] of each candidate's blocks alone, among all these blocks."""
        terms = [np.array(c.outcome.blocks).T for c in candidates]  # each [blocks, terms]
        scores = self.proxy.scores(np.concatenate(terms))
        return np.split(scores, np.cumsum([len(own) for own in terms])[:-1])

    def largest(self) -> Candidate:
        """Return the valid candidate with the most parameters; of equals, the best."""
        return max(self.ranked(), key=lambda c: c.sizes.params)

    def step(self) -> None:
        """Count a step of the strategy, and report it."""
        self.steps += 1
        self._on_step(self)

    def failures(self) -> dict[str, int]:
        """Return the number of candidates that failed, for each reason."""
        return dict(self._failures)


def _rank_key(number: int, score: float) -> tuple[float, int]:
    """Sort the best first, of equals the first found, and those without a score last."""
    return -score if math.isfinite(score) else math.inf, number
