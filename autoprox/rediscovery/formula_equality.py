"""Evidence that two formulas are equal: by their trees, by sympy, or by the scores of networks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import sympy

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import MeasurementError
from autoprox.export import to_sympy
from autoprox.language import Tree, canonical
from autoprox.primitives import OPERATIONS
from autoprox.scoring.correlations import Floats, kendall
from autoprox.statistics.matrix_sources import UncachedMatrices

PROPORTIONAL = 1e-9
LARGEST_COMPARED = 40  # nodes of trees that sympy compares: its time has no other bound


@dataclass(frozen=True)
class EqualityEvidence:
    """Why two formulas are equal.

    By networks, with the tau, and without `rank` the largest relative difference from proportional.
    """

    kind: Literal["tree", "sympy", "networks"]
    statement: str
    tau: float | None = None
    deviation: float | None = None


def equality_by_tree(found: Tree, target: Tree) -> EqualityEvidence | None:
    """Compare the canonical forms."""
    if canonical(found) != canonical(target):
        return None
    return EqualityEvidence("tree", "it has the target's canonical form")


def equality_by_sympy(found: Tree, target: Tree) -> EqualityEvidence | None:
    """Compare the expressions, without the operators' protection from 0."""
    if max(found.size, target.size) > LARGEST_COMPARED:
        return None
    if sympy.expand(symbolic_formula(found) - symbolic_formula(target)) != 0:
        return None
    return EqualityEvidence("sympy", "by sympy, the difference of the two formulas is zero")


def equality_by_networks(
    found: Sequence[Tree], target: Tree, networks: UncachedMatrices
) -> list[EqualityEvidence | None]:
    """Compare the scores of each formula for fresh networks, all measured in one pass."""
    scores = TreeEvaluator(networks).evaluate([target, *found]).values[:, 0]
    if networks.failures:
        raise MeasurementError(f"a fresh network failed: {next(iter(networks.failures.values()))}")
    ranked = target.fold(lambda node, args: node.symbol == "rank" or any(args))
    where = f"{len(networks.networks)} fresh networks of {networks.networks[0].identity[0]}"
    evidence: list[EqualityEvidence | None] = []
    for values in scores[1:]:
        tau = round(float(kendall(values, scores[0])), 12)
        deviation = relative_deviation(values, scores[0])
        text = f"it orders {where} as the target does: tau = 1"
        if tau != 1 or not (ranked or deviation <= PROPORTIONAL):
            evidence.append(None)
        elif ranked:
            evidence.append(EqualityEvidence("networks", text, tau))
        else:
            text += f", scores proportional to {deviation:.0e}"
            evidence.append(EqualityEvidence("networks", text, tau, deviation))
    return evidence


def relative_deviation(scores: Floats, target: Floats) -> float:
    """Return the largest relative difference of scores from proportional ones."""
    with np.errstate(all="ignore"):
        expected = target * ((scores @ target) / (target @ target))
        different = np.where(scores == expected, 0, np.abs(scores / expected - 1))
    return float(np.where(np.isnan(different), np.inf, different).max())


class AxisSum(sympy.Function):  # type: ignore[misc]
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
SYMBOLIC_MAPS: Mapping[str, Callable[..., sympy.Expr]] = {
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
SymbolicSum = Callable[[sympy.Expr], sympy.Expr]
SYMBOLIC_REDUCTIONS: Mapping[str, Callable[[sympy.Expr, SymbolicSum], sympy.Expr]] = {
    "sum": lambda x, total: total(x),
    "mean": lambda x, total: total(x) / total(ONE),
    "std": lambda x, total: sympy.sqrt(total(x**2) / total(ONE) - (total(x) / total(ONE)) ** 2),
    "l1_norm": lambda x, total: total(sympy.Abs(x)),
    "frobenius_norm": lambda x, total: sympy.sqrt(total(x**2)),
    "logsumexp": lambda x, total: sympy.log(total(sympy.exp(x))),
}


def symbolic_formula(tree: Tree) -> sympy.Expr:
    """Convert a tree: reductions become sums, and operations that aren't in the tables stay."""

    def visit(node: Tree, args: list[sympy.Expr]) -> sympy.Expr:
        if not args:
            return ONE if node.symbol == "one" else to_sympy(node)
        if node.symbol in SYMBOLIC_MAPS:
            return _split_absolute_products(SYMBOLIC_MAPS[node.symbol](*args))
        operation = OPERATIONS[node.symbol]
        if not operation.along_axis:
            return operation.sympy(*args)
        axis = sympy.Symbol(str(node.args[0].type))
        is_column = node.symbol == "nuclear_norm" and node.args[0].type.level == "Layers"
        reduce = SYMBOLIC_REDUCTIONS.get("frobenius_norm" if is_column else node.symbol)
        if reduce is None:
            return operation.sympy(*args, axis)
        return _split_absolute_products(reduce(args[0], lambda x: AxisSum(x, axis)))

    return canonical(tree).fold(visit)


def _split_absolute_products(x: sympy.Expr) -> sympy.Expr:
    """Replace |xy| by |x| |y|."""
    return x.replace(
        lambda part: isinstance(part, sympy.Abs) and part.args[0].is_Mul,
        lambda part: sympy.Mul(*map(sympy.Abs, part.args[0].args)),
    )
