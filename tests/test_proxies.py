import numpy as np
import pytest
from naive import Array, World, naive_evaluate, random_world
from scipy.special import logsumexp
from scipy.stats import rankdata

from autoprox.language import LanguageError, parse, require_network
from autoprox.proxies import PROXIES, load_expression

WORLD = random_world(seed=21, networks=6)


def per_network(formula: object, *names: str) -> Array:
    """Sum a formula over the layers of each network."""
    pairs = zip(*(WORLD[name] for name in names), strict=True)
    return np.array([sum(formula(*layer) for layer in zip(*each, strict=True)) for each in pairs])
