"""The registry of formats in which a proxy is written, and the short ones: text, sympy, LaTeX."""

from collections.abc import Callable
from typing import Any

import sympy

from autoprox.errors import AutoproxError
from autoprox.files.atomic_writes import to_json
from autoprox.language import Tree, ValueType, tree_digest
from autoprox.language.quantities import QUANTITIES
from autoprox.language.statistic_leaves import MEANINGS, unicode_letter
from autoprox.primitives import OPERATIONS, LatexFormula, fill_template
from autoprox.registry import Registry

Exporter = Callable[[Tree], str]


class ExportError(AutoproxError):
    """A format that breaks a rule of the registry, that doesn't exist, or that can't be written."""


def _prove(name: str, exporter: Exporter) -> None:
    if not callable(exporter) or not exporter.__doc__:
        raise ExportError(f"a form is a function with a docstring, but {name} is {exporter!r}")


EXPORTERS: Registry[Exporter] = Registry("exporters", "format", ExportError, _prove)


def expression_text(tree: Tree) -> str:
    """The tree as an expression of the language."""
    return str(tree)


def ascii_tree(tree: Tree) -> str:
    """The tree's nodes with their types, one a line, each below the operation that it feeds."""

    def visit(node: Tree, args: list[list[str]]) -> list[str]:
        lines = [f"{node.symbol}: {node.type}"]
        for index, branch in enumerate(args):
            first, rest = ("|-- ", "|   ") if index < len(args) - 1 else ("`-- ", "    ")
            lines += [first + branch[0], *(rest + line for line in branch[1:])]
        return lines

    lines = tree.fold(visit)
    return "\n".join(lines)


def json_text(tree: Tree) -> str:
    """The tree as JSON: its expression, its hash, and operations with their arguments."""

    def visit(node: Tree, args: list[Any]) -> Any:
        return {"operation": node.symbol, "arguments": args} if args else node.symbol

    whole = {"expression": str(tree), "hash": tree_digest(tree), "tree": tree.fold(visit)}
    return to_json(whole, indent=2)


def to_sympy(tree: Tree) -> sympy.Expr:
    """The tree as a sympy expression, nothing simplified.

    Operations on single elements are sympy's own, without the protection of their operators; the
    others are functions named like them, of their argument and the indices they run over.
    """

    def visit(node: Tree, args: list[sympy.Expr]) -> sympy.Expr:
        if node.leaf is not None:
            return node.leaf.kind.sympy(node.leaf.payload)
        operation = OPERATIONS[node.symbol]
        axis = [sympy.Symbol(axis_letters(node.args[0].type))] if operation.along_axis else []
        return operation.sympy(*args, *axis)

    return tree.fold(visit)


def sympy_text(tree: Tree) -> str:
    """The tree as sympy writes it; operations that sympy lacks are functions by their names."""
    return str(to_sympy(tree))


def latex(tree: Tree) -> str:
    """The tree as a LaTeX formula, in the part of LaTeX that matplotlib can draw."""
    return latex_formula(tree).text


def latex_formula(tree: Tree) -> LatexFormula:
    """The LaTeX of a tree, with how tightly it binds."""

    def visit(node: Tree, args: list[LatexFormula]) -> LatexFormula:
        if node.leaf is not None:
            return node.leaf.kind.latex(node.leaf.payload)
        operation, argument = OPERATIONS[node.symbol], node.args[0].type
        times = LatexFormula(r"\odot" if argument.level == "Matrix" else r"\cdot")
        named = dict(zip("xy", args, strict=False), times=times)
        text = fill_template(operation.latex, axis_letters(argument), **named)
        return LatexFormula(text, operation.binding, operation.nonnegative)

    return tree.fold(visit)


def formula_legend(tree: Tree) -> dict[str, str]:
    """The letters, superscripts and indices of the tree's formula, with their meanings."""
    found: set[str] = set()

    def visit(node: Tree, _: list[None]) -> None:
        if node.leaf is not None:
            found.update(node.leaf.kind.letters(node.leaf.payload))
        elif OPERATIONS[node.symbol].along_axis:
            found.add(axis_letters(node.args[0].type))

    tree.fold(visit)
    quantities = {n: (unicode_letter(q.symbol), q.meaning or n) for n, q in QUANTITIES.items()}
    meanings = quantities | MEANINGS
    return {label: meaning for key, (label, meaning) in meanings.items() if key in found}


def axis_letters(argument: ValueType) -> str:
    """The indices that an operation on a value of this type runs over, one letter each."""
    if argument.level == "Matrix":
        return "ij"
    return "k" if argument.domain == "block" else "l"
