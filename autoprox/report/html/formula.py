"""A proxy as mathematics, with what every letter means, and as a tree."""

from unicodedata import normalize

from autoprox.export import legend
from autoprox.export.latex_form import latex
from autoprox.export.mathml_form import mathml_of
from autoprox.language import Tree
from autoprox.primitives import OPERATIONS, Formula, fill
from autoprox.report.html.elements import Markup, element, facts, joined, section, table
from autoprox.report.html.trees import tree_drawing

OPERATORS = frozenset({"add", "sub", "mul", "div"})  # which every reader knows
STRUCTURE = {
    "width": "width of each block",
    "tokens": "tokens that each block sees",
    "heads": "attention heads of each block",
}


def formula_section(tree: Tree, title: str = "The formula") -> Markup:
    """The formula, its letters, its operations, its text and its tree."""
    letters = {normalize("NFKC", label): meaning for label, meaning in legend(tree).items()}
    symbols = _symbols(tree)
    letters |= {name: meaning for name, meaning in STRUCTURE.items() if name in symbols}
    return section(
        title,
        element("div", *map(Markup, _lines(tree)), class_="formula scroll"),
        facts(letters) if letters else Markup(),
        _operations(symbols),
        element("details", element("summary", "As text"), element("pre", str(tree))),
        element("details", element("summary", "As a tree"), tree_drawing(tree), open=""),
    )


def _lines(tree: Tree) -> list[str]:
    """The terms of a sum each on a line of its own: browsers don't break formulas."""
    if tree.symbol != "add":
        return [mathml_of(latex(tree))]
    first, second = tree.args
    return [*_lines(first), mathml_of(f"+ {_term(second)}")]


def _term(tree: Tree) -> str:
    text = latex(tree)
    return rf"\left({text}\right)" if tree.symbol in ("neg",) else text


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
