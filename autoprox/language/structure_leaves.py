"""The structure of blocks: `width`, `tokens`, `heads`, and `one`, with which sums count blocks."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from autoprox.language.leaf_kinds import LEAVES, LeafKind
from autoprox.language.value_types import PER_BLOCK
from autoprox.primitives import LatexFormula

STRUCTURE = ("width", "tokens", "heads", "one")
_MEANINGS = {
    "width": "width of each block",
    "tokens": "tokens that each block sees",
    "heads": "attention heads of each block",
    "one": "",
}
_CALLS = {
    "width": "block_widths(model, layers)",
    "tokens": "block_tokens(model, layers, inputs)",
    "heads": "block_heads(model, layers)",
}


def _python(name: str, add: Callable[[str, str], None]) -> str:
    if name == "one":
        add("autoprox.models.measured_layers", "block_layers")
        return "torch.tensor([1.0] * len(block_layers(layers)), dtype=torch.float64)"
    add("autoprox.models.measured_layers", _CALLS[name].partition("(")[0])
    return f"torch.tensor({_CALLS[name]}, dtype=torch.float64)"


LEAVES.register(
    "structure",
    LeafKind[str](
        name="structure",
        read=lambda word: word if word in STRUCTURE else None,
        write=str,
        type=lambda name: PER_BLOCK,
        latex=lambda name: LatexFormula(
            "1" if name == "one" else rf"\mathrm{{{name}}}_{{k}}", nonnegative=True
        ),
        # The number 1 would let sympy compute towers of powers.
        sympy=lambda name: sp.Symbol("1" if name == "one" else name, positive=True),
        python=_python,
        values=lambda name, network: [
            1.0 if name == "one" else float(getattr(block, name)) for block in network.blocks
        ],
        nonnegative=lambda name: True,
        is_one=lambda name: name == "one",
        words=lambda: STRUCTURE,
        meaning=_MEANINGS.__getitem__,
    ),
)
