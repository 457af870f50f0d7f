"""The terms of a proxy: its parts that depend on one network alone.

Only `rank` compares networks. The terms are the largest parts of a proxy without `rank` that are
numbers of a network: they can be measured network by network, and combined into scores once it is
known which networks are compared.
"""

from collections.abc import Mapping

import numpy as np
import torch

from autoprox.language import Tree, canonical, require_complete_proxy
from autoprox.primitives import COMBINATORS, apply_primitive
from autoprox.scoring.correlations import Floats


def proxy_terms(tree: Tree) -> tuple[Tree, ...]:
    """Return the different terms of a complete proxy's canonical form."""
    found: dict[Tree, None] = {}

    def visit(node: Tree, args: list[bool]) -> bool:
        """Return whether the node compares networks; its other arguments are terms then."""
        if node.symbol != "rank" and not any(args):
            return False
        found.update(
            (arg, None) for arg, compares in zip(node.args, args, strict=True) if not compares
        )
        return True

    form = canonical(require_complete_proxy(tree))
    return tuple(found) if form.fold(visit) else (form,)


def combine_terms(tree: Tree, measured: Mapping[Tree, Floats]) -> Floats:
    """Combine the values of a proxy's terms, [..., networks], into scores of the same shape."""

    def visit(node: Tree, args: list[torch.Tensor | None]) -> torch.Tensor | None:
        """Return None below the terms."""
        if node in measured:
            return torch.from_numpy(np.asarray(measured[node], dtype=np.float64))
        known = [arg for arg in args if arg is not None]
        if not args or len(known) < len(args):
            return None
        return apply_primitive(COMBINATORS[node.symbol], known, "network")

    scores = canonical(tree).fold(visit)
    if scores is None:
        raise ValueError(f"the terms of {tree} must be measured")
    return scores.numpy()
