"""Evaluates trees on networks of several sources as if they were of one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.evaluator import Engine, Scores, reasons_of
from autoprox.language import Tree


class Block(NamedTuple):
    """Networks of one engine, by their places in its source; none that failed."""

    engine: Engine
    places: Sequence[int]


def evaluate_blocks(blocks: Sequence[Block], trees: Sequence[Tree]) -> Scores:
    """Scores of complete proxies on the networks of all blocks, which `rank` ranks together."""
    if len(blocks) == 1:
        return blocks[0].engine.evaluate(trees, blocks[0].places)
    terms = list(dict.fromkeys(term for tree in trees for term in terms_of(tree)))
    parts = [engine.evaluate(terms, places).values for engine, places in blocks]
    measured = dict(zip(terms, np.concatenate(parts, axis=-1), strict=True))
    values = np.stack([compare(tree, measured) for tree in trees])
    return Scores(values, np.stack([reasons_of(own) for own in values]))
