"""What size explains of a search: of its scores, of its pick, and of what an evaluator says."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from autoprox.nas.searcher import Candidate, Searcher
from autoprox.scoring.correlations import spearman
from autoprox.scoring.resampling import Sample, count_equal_pairs, plain, worth
from autoprox.searchspaces.size_limits import SIZE_TOLERANCE

FEWEST = 10  # evaluated candidates that correlations are computed of


def size_summary(searcher: Searcher, top: Sequence[int]) -> dict[str, Any]:
    """How like size the candidates' order is, and the best of them beside the largest.

    `top` are the parameters of the best.
    """
    ranked, largest = searcher.ranked(), searcher.largest()
    params = [float(candidate.sizes.params) for candidate in ranked]
    scores = [searcher.scores()[candidate.number] for candidate in ranked]
    return {
        "spearman": plain(spearman(scores, params)),
        "candidates": len(ranked),
        "largest": {
            "candidate": largest.number,
            **largest.sizes._asdict(),
            "score": searcher.score_of(largest),
        },
        "pick_is_largest": top[0] == largest.sizes.params,
        "near_largest": sum(own >= (1 - SIZE_TOLERANCE) * largest.sizes.params for own in top),
        "top": len(top),
    }


def worth_of_evaluated(searcher: Searcher, seed: int) -> dict[str, Any]:
    """What the evaluator says of the proxy's pick and of the largest, and of the scores.

    The largest is evaluated for this. Regret is the value of the best that was evaluated less that
    of the pick, so that less is better whatever the value.
    """
    sign = -1.0 if searcher.evaluator and searcher.evaluator.lower_is_better else 1.0
    evaluated = [c for c in searcher.ranked() if c.value is not None]
    pick, largest = evaluated[0] if evaluated else None, searcher.largest()
    searcher.evaluate([largest])
    known = [c for c in (*evaluated, largest) if c.value is not None]
    best = max((sign * (c.value or 0.0) for c in known), default=None)

    def entry(candidate: Candidate | None) -> dict[str, Any] | None:
        if candidate is None or candidate.value is None or best is None:
            return None
        regret = best - sign * candidate.value
        return {"candidate": candidate.number, "value": candidate.value, "regret": regret}

    return {
        "pick": entry(pick),
        "largest": entry(largest),
        **_correlations(searcher, evaluated, sign, seed),
    }


def _correlations(
    searcher: Searcher, evaluated: Sequence[Candidate], sign: float, seed: int
) -> dict[str, Any]:
    """Of score and value, beside the baselines, on the candidates that the strategy evaluated."""
    found = [c for c in evaluated if searcher.score_of(c) is not None]
    if len(found) < FEWEST:
        return {"networks": len(found), "pairs": 0, "means": {}, "comparison": {}}
    truth = np.array([sign * (c.value or 0.0) for c in found])
    columns = {
        "proxy": np.array([searcher.scores()[c.number] for c in found]),
        "params": np.array([float(c.sizes.params) for c in found]),
        "flops": np.array([float(c.sizes.flops) for c in found]),
    }
    sample, params = Sample(len(found), seed), columns["params"]
    worths = {name: worth(own, truth, params, sample) for name, own in columns.items()}
    return {
        "networks": len(found),
        "pairs": count_equal_pairs(params),
        "means": {name: own.row() for name, own in worths.items()},
        "comparison": {n: worths["proxy"].less(worths[n]) for n in ("params", "flops")},
    }
