"""Decimal numbers, the same for every network: `0.37`, `-1.5`, `2`."""

from __future__ import annotations

import re
from decimal import Decimal

import sympy as sp

from autoprox.language.leaf_kinds import LEAVES, LanguageError, LeafKind, quote_foreign_text
from autoprox.language.value_types import NETWORK
from autoprox.primitives import BindingStrength, LatexFormula

MAX_NUMBER_DIGITS = 15  # those that a float64 keeps, so that different numbers differ in value
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _read(word: str) -> Decimal | None:
    if not _NUMBER.fullmatch(word):
        return None
    whole, _, decimals = word.removeprefix("-").partition(".")
    digits = (whole.lstrip("0") or "0") + decimals.rstrip("0")
    if len(digits) > MAX_NUMBER_DIGITS:
        raise LanguageError(
            f"a number has at most {MAX_NUMBER_DIGITS} digits, got {quote_foreign_text(word)}"
        )
    return Decimal(word)


def _write(number: Decimal) -> str:
    text = f"{number.copy_abs():f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"-{text}" if number < 0 else text


def _sympy(number: Decimal) -> sp.Expr:
    word = _write(number)
    return sp.Float(word) if "." in word else sp.Integer(word)


LEAVES.register(
    "number",
    LeafKind[Decimal](
        name="number",
        read=_read,
        write=_write,
        type=lambda number: NETWORK,
        latex=lambda number: LatexFormula(
            _write(number),
            BindingStrength.SIGNED if number < 0 else BindingStrength.ATOM,
            number >= 0,
        ),
        sympy=_sympy,
        python=lambda number, add: f"torch.tensor({float(number)!r}, dtype=torch.float64)",
        values=lambda number, network: [float(number)],
        nonnegative=lambda number: number >= 0,
        is_one=lambda number: number == 1,
    ),
)
