"""Splits a proxy into what depends on one network alone, and what compares networks.

Only `rank` compares. The terms of a proxy are its largest parts without `rank` that are numbers of
a network: they can be measured network by network, and combined once it is known which networks are
compared.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from autoprox.language import Tree, canonical, require_network
from autoprox.primitives import COMBINATORS, apply
from autoprox.scoring.correlations import Floats


def terms_of(tree: Tree) -> tuple[Tree, ...]:
    """The terms of a complete proxy's canonical form, each once."""
    found: dict[Tree, None] = {}

    def visit(node: Tree, args: list[bool]) -> bool:
        """Whether the node compares networks; its other arguments are terms then."""
        if not node.compares_networks:
            return False
        for arg, compares in zip(node.args, args, strict=True):
            if not compares:
                found[arg] = None
        return True

    whole = canonical(require_network(tree))
    return tuple(found) if whole.fold(visit) else (whole,)


def compare(tree: Tree, measured: Mapping[Tree, Floats]) -> Floats:
    """The scores [..., networks] of the networks whose terms were measured, [..., networks]."""

    def visit(node: Tree, args: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
        """None below the terms."""
        if node in measured:
            return torch.from_numpy(np.asarray(measured[node], dtype=np.float64))
        known = [arg for arg in args if arg is not None]
        if not args or len(known) < len(args):
            return None
        return apply(COMBINATORS[node.symbol], known, "network")

    scores = canonical(tree).fold(visit)
    if scores is None:
        raise ValueError(f"the terms of {tree} must be measured")
    return scores.numpy()
