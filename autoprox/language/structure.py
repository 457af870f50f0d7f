"""The structure of blocks: `width`, `tokens`, `heads`, and `one`, with which sums count blocks."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from autoprox.language.leaves import LEAVES, LeafKind
from autoprox.language.types import BLOCK
from autoprox.language.vocabulary import STRUCTURE
from autoprox.primitives import Formula

_MEANINGS = {
    "width": "width of each block",
    "tokens": "tokens that each block sees",
    "heads": "attention heads of each block",
}
_FUNCTIONS = {"width": "block_widths", "tokens": "block_tokens", "heads": "block_heads"}
_WORDS = {name: name for name in STRUCTURE}


def _sympy(name: str) -> sp.Expr:
    # The number 1 would let sympy compute towers of powers.
    return sp.Symbol("1" if name == "one" else name, positive=True)


def _python(name: str, add: Callable[[str, str], None]) -> str:
    if name == "one":
        add("autoprox.models.measured_layers", "block_layers")
        values = "[1.0] * len(block_layers(layers))"
    else:
        add("autoprox.models.measured_layers", _FUNCTIONS[name])
        inputs = ", inputs" if name == "tokens" else ""
        values = f"{_FUNCTIONS[name]}(model, layers{inputs})"
    return f"torch.tensor({values}, dtype=torch.float64)"


LEAVES.register(
    "structure",
    LeafKind(
        name="structure",
        read=_WORDS.get,
        write=str,
        type=lambda name: BLOCK,
        latex=lambda name: Formula(
            "1" if name == "one" else rf"\mathrm{{{name}}}_{{k}}", nonnegative=True
        ),
        sympy=_sympy,
        python=_python,
        values=lambda name, network: [
            1.0 if name == "one" else float(getattr(block, name)) for block in network.blocks
        ],
        nonnegative=lambda name: True,
        words=lambda: STRUCTURE,
        meaning=lambda name: _MEANINGS.get(name, ""),
    ),
)
