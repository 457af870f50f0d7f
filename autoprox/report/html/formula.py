"""A proxy as mathematics, with what every letter means, and as a tree."""

from unicodedata import normalize

from autoprox.export import legend
from autoprox.export.formats import latex, latex_formula
from autoprox.export.mathml_format import mathml_of
from autoprox.language import Tree
from autoprox.primitives import OPERATIONS, Formula, fill
from autoprox.report.html.elements import Markup, element, facts, joined, section, table
from autoprox.report.html.trees import tree_drawing

OPERATORS = frozenset({"add", "sub", "mul", "div"})  # which every reader knows


def formula_section(tree: Tree, title: str = "The formula") -> Markup:
    """The formula, its letters, its operations, its text and its tree."""
    letters = {normalize("NFKC", label): meaning for label, meaning in legend(tree).items()}
    letters |= _leaf_meanings(tree)
    return section(
        title,
        element("div", *map(Markup, _lines(tree)), class_="formula scroll"),
        facts(letters) if letters else Markup(),
        _operations(_symbols(tree)),
        element("details", element("summary", "As text"), element("pre", str(tree))),
        element("details", element("summary", "As a tree"), tree_drawing(tree), open=""),
    )


def _lines(tree: Tree) -> list[str]:
    """The terms of a sum each on a line of its own: browsers don't break formulas."""
    if tree.symbol != "add":
        return [mathml_of(latex(tree))]
    first, second = tree.args
    return [*_lines(first), mathml_of(f"+ {latex_formula(second).within('TERM')}")]


def _leaf_meanings(tree: Tree) -> dict[str, str]:
    """The meaning of each leaf that is written as a word."""
    found: dict[str, str] = {}

    def visit(node: Tree, _: list[None]) -> None:
        if node.leaf and (meaning := node.leaf.kind.meaning(node.leaf.payload)):
            found[node.symbol] = meaning

    tree.fold(visit)
    return found


def _symbols(tree: Tree) -> set[str]:
    found: set[str] = set()
    tree.fold(lambda node, _: found.add(node.symbol))
    return found


def _operations(symbols: set[str]) -> Markup:
    used = [own for name, own in OPERATIONS.items() if name in symbols - OPERATORS]
    if not used:
        return Markup()
    x, y, times = Formula("x"), Formula("y"), Formula(r"\cdot")
    written = [fill(own.latex, x=x, y=y, times=times) for own in used]
    rows = [
        (Markup(mathml_of(text)), own.name, " ".join(own.rule.split()))
        for text, own in zip(written, used, strict=True)
    ]
    shown = table(("written", "operation", "what it does"), rows)
    return joined([element("details", element("summary", "The operations"), shown)])
