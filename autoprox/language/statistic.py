"""The leaves that are measured: one matrix for each layer of a domain, `ones.msa.grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode
from sympy.printing.pretty.stringpict import prettyForm

from autoprox.language.leaves import LEAVES, LeafKind
from autoprox.language.letters import MEANINGS, unicode
from autoprox.language.quantities import QUANTITIES
from autoprox.language.vocabulary import EVERY_STATISTIC, Statistic
from autoprox.primitives import Binding, Formula


class Matrices(sp.Symbol):  # type: ignore[misc]
    """A statistic, one matrix for each layer of a domain: `W_msa`, `G_mlp_ones`."""

    def _pretty(self, _: Any) -> prettyForm:
        letter, domain, *probe = self.name.split("_")
        return prettyForm(unicode(letter) + "".join(MEANINGS[key][0] for key in (*probe, domain)))


def _read(word: str) -> Statistic | None:
    return EVERY_STATISTIC.get(word.removeprefix("data."))


def _canonical(statistic: Statistic) -> Sequence[str]:
    """One forward pass serves two probes, and the `ones` probe's weights are absolute values."""
    word = str(statistic)
    if statistic.probe == "data" or QUANTITIES[statistic.quantity].needs == "backward":
        return (word,)
    plain = word.partition(".")[2]
    if statistic.probe == "ntk":
        return (plain,)
    return (plain, "abs") if statistic.quantity == "weight" else (word,)


def _is_nonnegative(statistic: Statistic) -> bool:
    """Whether its values are absolute values."""
    return (statistic.probe, statistic.quantity) == ("ones", "weight")


def _latex(statistic: Statistic) -> Formula:
    letter = QUANTITIES[statistic.quantity].symbol
    if len(letter) > 1:
        letter = rf"\{letter}" if letter in greek_unicode else rf"\mathrm{{{letter}}}"
    probe = "" if statistic.probe == "data" else rf",\mathrm{{{statistic.probe}}}"
    text = rf"{letter}^{{\mathrm{{{statistic.domain}}}{probe}}}_{{l}}"
    return Formula(text, Binding.POWER, _is_nonnegative(statistic))


def _sympy(statistic: Statistic) -> sp.Expr:
    text = f"{QUANTITIES[statistic.quantity].symbol}_{statistic.domain}"
    if statistic.probe != "data":
        text += f"_{statistic.probe}"
    return Matrices(text, real=True, nonnegative=_is_nonnegative(statistic) or None)


def _python(statistic: Statistic, add: Callable[[str, str], None]) -> str:
    return f'{statistic.probe}["{statistic.domain}.{statistic.quantity}"]'


LEAVES.register(
    "statistic",
    LeafKind(
        name="statistic",
        read=_read,
        write=str,
        type=lambda statistic: statistic.type,
        latex=_latex,
        sympy=_sympy,
        python=_python,
        canonical=_canonical,
        words=lambda: EVERY_STATISTIC,
        letters=lambda statistic: (statistic.quantity, statistic.domain, statistic.probe),
    ),
)
