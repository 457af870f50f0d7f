"""A tree as data: sympy's text, and JSON."""

from typing import Any

from autoprox.export.registry import EXPORTERS
from autoprox.export.sympy_form import to_sympy
from autoprox.files.atomic_writes import to_json
from autoprox.language import Tree, digest


def sympy_text(tree: Tree) -> str:
    """The tree as sympy writes it; operations that sympy lacks are functions by their names."""
    return str(to_sympy(tree))


def json_text(tree: Tree) -> str:
    """The tree as JSON: its expression, its hash, and operations with their arguments."""

    def visit(node: Tree, args: list[Any]) -> Any:
        return {"operation": node.symbol, "arguments": args} if args else node.symbol

    whole = {"expression": str(tree), "hash": digest(tree), "tree": tree.fold(visit)}
    return to_json(whole, indent=2)


EXPORTERS.register("sympy", sympy_text)
EXPORTERS.register("json", json_text)
