"""Tells whether a formula that was found is the one that was looked for, and by what evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import sympy

from autoprox.engine.evaluator import Engine
from autoprox.errors import MeasurementError
from autoprox.export import to_sympy
from autoprox.language import Tree, canonical
from autoprox.primitives import OPERATIONS
from autoprox.scoring.correlations import Floats, kendall
from autoprox.statistics.sources import StreamedMatrices

PROPORTIONAL = 1e-9
LARGEST_FORM = 40  # nodes of trees whose forms are compared: sympy's time has no other bound


@dataclass(frozen=True)
class Evidence:
    """Why two formulas are one.

    By networks, with the tau, and without `rank` the largest relative difference from proportional.
    """

    kind: Literal["tree", "sympy", "networks"]
    statement: str
    tau: float | None = None
    deviation: float | None = None


def by_tree(found: Tree, target: Tree) -> Evidence | None:
    """Evidence by the canonical forms."""
    if canonical(found) != canonical(target):
        return None
    return Evidence("tree", "it has the target's canonical form")


def by_form(found: Tree, target: Tree) -> Evidence | None:
    """Evidence by what the formulas stand for; what protects operators from 0 is left out."""
    if max(found.size, target.size) > LARGEST_FORM:
        return None
    difference = sympy.expand(form(found) - form(target))
    if difference != 0:
        return None
    return Evidence("sympy", "by sympy, the difference of the two formulas is zero")


def by_networks(
    found: Sequence[Tree], target: Tree, networks: StreamedMatrices
) -> list[Evidence | None]:
    """Evidence for each formula by scores of fresh networks, all measured in one pass."""
    scores = Engine(networks).evaluate([target, *found]).values[:, 0]
    if networks.failures:
        raise MeasurementError(f"a fresh network failed: {next(iter(networks.failures.values()))}")
    ranked = has_rank(target)
    where = f"{len(networks.networks)} fresh networks of {networks.networks[0].identity[0]}"
    evidence: list[Evidence | None] = []
    for own in scores[1:]:
        tau = round(float(kendall(own, scores[0])), 12)
        deviation = relative_deviation(own, scores[0])
        same = tau == 1 and (ranked or deviation <= PROPORTIONAL)
        text = f"it orders {where} as the target does: tau = 1"
        if not ranked:
            text += f", scores proportional to {deviation:.0e}"
        evidence.append(
            Evidence("networks", text, tau, None if ranked else deviation) if same else None
        )
    return evidence


def has_rank(tree: Tree) -> bool:
    """Whether a formula compares networks."""
    return tree.compares_networks


def relative_deviation(scores: Floats, target: Floats) -> float:
    """How far scores are from proportional: the largest relative difference."""
    with np.errstate(all="ignore"):
        expected = target * ((scores @ target) / (target @ target))
        different = np.where(scores == expected, 0, np.abs(scores / expected - 1))
    return float(np.where(np.isnan(different), np.inf, different).max())


class Total(sympy.Function):  # type: ignore[misc]
    """The sum over an axis, term by term, with numbers in front."""

    is_real = True

    @classmethod
    def eval(cls, x: sympy.Expr, axis: sympy.Expr) -> sympy.Expr | None:
        x = sympy.expand(x)
        if x.is_Add:
            return sympy.Add(*(cls(term, axis) for term in x.args))
        number, rest = x.as_coeff_Mul()
        return None if number == 1 else number * cls(rest, axis)

    def _eval_is_nonnegative(self) -> bool | None:
        nonnegative: bool | None = self.args[0].is_nonnegative
        return nonnegative


ONE = sympy.S.One
ELEMENTWISE: Mapping[str, Callable[..., sympy.Expr]] = {
    "neg": lambda x: -x,
    "abs": sympy.Abs,
    "square": lambda x: x**2,
    "sqrt": lambda x: sympy.sqrt(sympy.Abs(x)),
    "log": lambda x: sympy.log(sympy.Abs(x)),
    "exp": sympy.exp,
    "inverse": lambda x: 1 / x,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}
REDUCED: Mapping[str, Callable[[sympy.Expr, Callable[[sympy.Expr], sympy.Expr]], sympy.Expr]] = {
    "sum": lambda x, total: total(x),
    "mean": lambda x, total: total(x) / total(ONE),
    "std": lambda x, total: sympy.sqrt(total(x**2) / total(ONE) - (total(x) / total(ONE)) ** 2),
    "l1_norm": lambda x, total: total(sympy.Abs(x)),
    "frobenius_norm": lambda x, total: sympy.sqrt(total(x**2)),
    "logsumexp": lambda x, total: sympy.log(total(sympy.exp(x))),
}


def form(tree: Tree) -> sympy.Expr:
    """What a tree stands for: reductions as sums, and what isn't in the tables as it is."""

    def visit(node: Tree, args: list[sympy.Expr]) -> sympy.Expr:
        if not args:
            return ONE if node.symbol == "one" else to_sympy(node)
        if node.symbol in ELEMENTWISE:
            return _without_products(ELEMENTWISE[node.symbol](*args))
        operation = OPERATIONS[node.symbol]
        if not operation.along_axis:
            return operation.sympy(*args)
        axis = sympy.Symbol(str(node.args[0].type))
        is_column = node.symbol == "nuclear_norm" and node.args[0].type.level == "Layers"
        reduce = REDUCED.get("frobenius_norm" if is_column else node.symbol)
        if reduce is None:
            return operation.sympy(*args, axis)
        return _without_products(reduce(args[0], lambda x: Total(x, axis)))

    return canonical(tree).fold(visit)


def _without_products(x: sympy.Expr) -> sympy.Expr:
    """The same, with |xy| as |x| |y|."""
    return x.replace(
        lambda part: isinstance(part, sympy.Abs) and part.args[0].is_Mul,
        lambda part: sympy.Mul(*map(sympy.Abs, part.args[0].args)),
    )
