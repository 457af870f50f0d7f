"""Statistics, the leaves that are measured: one matrix for each layer of a domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode
from sympy.printing.pretty.stringpict import prettyForm

from autoprox.language.canonical_form import canonical
from autoprox.language.layer_domains import BLOCK_DOMAINS, DOMAINS, single_domains_of
from autoprox.language.leaf_kinds import LEAVES, LeafKind
from autoprox.language.quantities import QUANTITIES
from autoprox.language.tree import Tree
from autoprox.language.value_types import ValueType
from autoprox.primitives import BindingStrength, LatexFormula
from autoprox.registry import View

Probe = Literal["data", "ones", "ntk"]
PROBES: tuple[Probe, ...] = ("data", "ones", "ntk")
# The letters, superscripts and indices of formulas: how they are written, and their meaning.
MEANINGS = {
    "msa": ("ₘₛₐ", "qkv and proj of each block"),
    "mlp": ("ₘₗₚ", "fc1 and fc2 of each block"),
    "all": ("ₐₗₗ", "qkv, proj, fc1 and fc2 of each block"),
    "qkv": ("qkv", "the layers that compute the queries, keys and values of each block"),
    "stem": ("stem", "the convolutions that embed patches"),
    "pool": ("pool", "the layers between stages"),
    "keep": ("keep", "the linear layers between stages that keep the width"),
    "widen": ("widen", "the other layers between stages"),
    "head": ("head", "the classifier"),
    "diverse": ("diverse", "qkv and proj of each block, linear layers that keep the width"),
    "salient": ("salient", "fc1 and fc2 of each block, other layers between stages, classifier"),
    "other": ("other", "linear layers and convolutions in no other domain"),
    "net": ("net", "all linear layers and convolutions"),
    "ones": ("ᵒⁿᵉˢ", "absolute weights, an input of ones, loss: the sum of the outputs"),
    "ntk": ("ⁿᵗᵏ", "loss: the last block's output times random signs"),
    "ij": ("i, j", "elements of a matrix"),
    "l": ("l", "layers"),
    "k": ("k", "blocks"),
}


@dataclass(frozen=True)
class Statistic:
    """A quantity of the layers of a domain, measured in the pass of a probe: `ones.msa.grad`."""

    probe: Probe
    domain: str
    quantity: str

    def __str__(self) -> str:
        prefix = "" if self.probe == "data" else f"{self.probe}."
        return f"{prefix}{self.domain}.{self.quantity}"

    @property
    def type(self) -> ValueType:
        like = QUANTITIES[self.quantity].like
        return ValueType("Matrix", self.domain if like == "weight" else "act")

    @property
    def parts(self) -> list[Statistic]:
        """The same of each single domain."""
        return [replace(self, domain=domain) for domain in single_domains_of(self.domain)]

    @property
    def nonnegative(self) -> bool:
        """Whether its values are absolute values."""
        return (self.probe, self.quantity) == ("ones", "weight")

    @property
    def canonical(self) -> Sequence[str]:
        """Its canonical form, from the leaf to the root.

        One forward pass serves two probes, and the `ones` probe's weights are absolute values.
        """
        if self.probe == "data" or QUANTITIES[self.quantity].needs == "backward":
            return [str(self)]
        plain = f"{self.domain}.{self.quantity}"
        if self.probe == "ntk":
            return [plain]
        return [plain, "abs"] if self.quantity == "weight" else [str(self)]

    @property
    def latex(self) -> LatexFormula:
        letter = QUANTITIES[self.quantity].symbol
        if len(letter) > 1:
            letter = rf"\{letter}" if letter in greek_unicode else rf"\mathrm{{{letter}}}"
        probe = "" if self.probe == "data" else rf",\mathrm{{{self.probe}}}"
        text = rf"{letter}^{{\mathrm{{{self.domain}}}{probe}}}_{{l}}"
        return LatexFormula(text, BindingStrength.POWER, self.nonnegative)

    @property
    def sympy(self) -> sp.Expr:
        text = f"{QUANTITIES[self.quantity].symbol}_{self.domain}"
        text += "" if self.probe == "data" else f"_{self.probe}"
        return MatrixSymbol(text, real=True, nonnegative=self.nonnegative or None)


class MatrixSymbol(sp.Symbol):  # type: ignore[misc]
    """A statistic in sympy, one matrix for each layer of a domain: `W_msa`, `G_mlp_ones`."""

    def _pretty(self, _: Any) -> prettyForm:
        letter, domain, *probe = self.name.split("_")
        parts = (unicode_letter(letter), *(MEANINGS[key][0] for key in (*probe, domain)))
        return prettyForm("".join(parts))


def unicode_letter(letter: str) -> str:
    """A quantity's letter, as one character if it is the name of a Greek one."""
    return str(greek_unicode.get(letter, letter))


def _statistics_of(domains: Sequence[str]) -> Mapping[str, Statistic]:
    """Activations are those of the layers of MLPs; outside blocks only parameters are measured."""
    made = [
        Statistic(probe, domain, quantity.name)
        for probe in PROBES
        for like, domains_ in (("weight", domains), ("activation", ("mlp",)))
        for domain in domains_
        for quantity in QUANTITIES.values()
        if quantity.like == like and (domain in BLOCK_DOMAINS or quantity.of_parameters)
    ]
    return {str(statistic): statistic for statistic in made}


# The statistics of blocks are those that grammars draw from by default.
STATISTICS: Mapping[str, Statistic] = View(QUANTITIES, lambda: _statistics_of(BLOCK_DOMAINS))
EVERY_STATISTIC: Mapping[str, Statistic] = View(QUANTITIES, lambda: _statistics_of(DOMAINS))

LEAVES.register(
    "statistic",
    LeafKind[Statistic](
        name="statistic",
        read=lambda word: EVERY_STATISTIC.get(word.removeprefix("data.")),
        write=str,
        type=lambda statistic: statistic.type,
        latex=lambda statistic: statistic.latex,
        sympy=lambda statistic: statistic.sympy,
        python=lambda own, add: f'{own.probe}["{own.domain}.{own.quantity}"]',
        canonical=lambda statistic: statistic.canonical,
        words=lambda: EVERY_STATISTIC,
        letters=lambda statistic: (statistic.quantity, statistic.domain, statistic.probe),
    ),
)


def statistics(tree: Tree) -> frozenset[Statistic]:
    """The statistics that the canonical form of a tree reads."""
    return frozenset(
        leaf.payload
        for leaf in canonical(tree).leaves.values()
        if isinstance(leaf.payload, Statistic)
    )
