"""Proxies that combine the ranks of several functions, and so compare all networks at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from autoprox.registry import View
from autoprox.scoring.correlations import Floats
from autoprox.zoo.expression_proxies import PROXIES, ProxyError, PublishedProxy
from autoprox.zoo.functions.function_proxy_registration import FunctionProxy


@dataclass(frozen=True)
class RankCombination(PublishedProxy):
    """A published proxy that is the sum of the logarithms of ranks by function proxies.

    `parts` are the names of the functions, `rule` says in words what the proxy is.
    """

    name: str
    equation: str
    parts: tuple[str, ...]
    rule: str

    def function_names(self) -> tuple[str, ...]:
        """Return the parts, which must be functions of the zoo."""
        others = [part for part in self.parts if not isinstance(PROXIES.get(part), FunctionProxy)]
        if others or not self.parts:
            rule = f"{self.name} must combine functions of the zoo"
            raise ProxyError(f"{rule}, but got {', '.join(others) or 'none'}")
        return self.parts

    def combine(self, values: Floats) -> Floats:
        """Return the scores [networks] of the values [parts, networks]; ties share their rank."""
        ranks = rankdata(values, axis=1)
        return np.asarray(np.log(ranks / max(values.shape[1], 1)).sum(axis=0))


RANK_COMBINATIONS: Mapping[str, RankCombination] = View(
    PROXIES, lambda: {name: p for name, p in PROXIES.items() if isinstance(p, RankCombination)}
)


def register_rank_combination(
    name: str, citation: str, equation: str, parts: Sequence[str], rule: str
) -> None:
    """Register a `RankCombination`."""
    PROXIES.register(name, RankCombination(citation, name, equation, tuple(parts), rule))
