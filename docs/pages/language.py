"""The pages on the language: its operations and its statistics."""

from collections.abc import Iterator
from itertools import groupby

from autoprox.export.mathml_format import mathml_from_latex
from autoprox.language import EVERY_STATISTIC, STATISTICS, STRUCTURE
from autoprox.language.layer_domains import DOMAIN_PARTS, DOMAINS
from autoprox.language.quantities import QUANTITIES
from autoprox.language.statistic_leaves import MEANINGS, unicode_letter
from autoprox.primitives import OPERATIONS, LatexFormula, fill_template
from autoprox.report.terminal.operations_report import operation_details

from . import text
from .text import code, table

KINDS = {
    "map": "Maps: each value by itself",
    "normalise": "Normalisations: each value relative to the others",
    "depth": "Along depth",
    "reduce": "Reductions: a matrix to a number, or the layers to a score",
    "binary": "Of two values",
    "pair": "Of two values, to a number",
    "combinator": "Among the networks compared",
}
DRAWN = {
    "map": "Drawn is the value over x from -3 to 3.",
    "normalise": "Drawn are six values (hollow) and what becomes of them (full).",
    "depth": "Drawn are six layers' values (hollow) and what becomes of them (full).",
    "reduce": "Drawn is the number over x from -3 to 3: of the matrix [[x, 1], [-0.5, 2]].",
    "binary": "Drawn is the value over x from -3 to 3: y is -1 (dotted), 0.5 (dashed) or 2 (full).",
    "pair": "Drawn is the number over one entry x from -3 to 3: of (x, 1, -0.5) and (1, 2, 0.5).",
    "combinator": "Drawn are the scores of six networks (hollow) and what becomes of them (full).",
}
MEANT = {
    "data": "cross-entropy on a mini-batch: seeded noise, or real images or texts",
    "width": "the block's embedding dimension",
    "tokens": "the length of its sequence",
    "heads": "its number of heads",
    "one": "1 for each block, so that sums count blocks",
}


def operations() -> str:
    """The page on operations."""
    parts = []
    details = sorted(operation_details(), key=lambda row: [*KINDS].index(row.kind))
    for kind, rows in groupby(details, key=lambda row: row.kind):
        lines = [
            [
                f"<a id='{row.name}'></a>{code(row.name)}",
                f"![plot of {row.name}](plots/{row.name}.svg)",
                *(drawn_formula(row.name), row.rule, "<br>".join(row.types)),
            ]
            for row in rows
        ]
        headings = ("operation", "plot", "formula", "what it does", "types")
        parts.append("\n\n".join([f"## {KINDS[kind]}", DRAWN[kind], table(headings, lines)]))
    among = sum(one.kind == "combinator" for one in OPERATIONS.values())
    return text.page(
        "Operations",
        f"The language has {len(OPERATIONS) - among} operations, with `rank` {len(OPERATIONS)}; "
        "no two are the same function at any level, which is proved when they are registered. "
        "`Matrix` is a matrix for each linear layer, `Layers` a number for each, `Network` one "
        "number. `autoprox show --operations` prints this page.",
        *parts,
    )


def drawn_formula(name: str) -> str:
    """An operation of x and y as mathematics, in a line."""
    own = OPERATIONS[name]
    values = {"x": LatexFormula("x"), "y": LatexFormula("y"), "times": LatexFormula(r"\cdot")}
    found = mathml_from_latex(
        fill_template(own.latex, axis="i" if own.along_axis else "", **values)
    )
    return found.replace(' display="block"', "")


def quantities() -> Iterator[list[str]]:
    """A line for each thing that is measured of a layer."""
    for quantity in QUANTITIES.values():
        letter = unicode_letter(quantity.symbol)
        yield [code(quantity.name), code(letter), quantity.meaning, quantity.needs, quantity.like]


def domains() -> Iterator[list[str]]:
    """A line for each set of layers."""
    for domain in DOMAINS:
        usual = "yes" if any(one.domain == domain for one in STATISTICS.values()) else "named only"
        yield [code(domain), MEANINGS[domain][1], ", ".join(DOMAIN_PARTS.get(domain, ())), usual]


def statistics() -> str:
    """The page on statistics."""
    probes = [["none", MEANT["data"]], *([f"`{n}.`", MEANINGS[n][1]] for n in ("ones", "ntk"))]
    default = [[code(name), str(one.type)] for name, one in STATISTICS.items()]
    rest = [code(name) for name in EVERY_STATISTIC if name not in STATISTICS]
    return text.page(
        "Statistics",
        "A statistic is measured of every linear layer of an untrained network. Its name has "
        "three parts: the pass that it comes from, the layers that it is of, and what is "
        "measured: `ones.mlp.weight`, `msa.grad`.",
        "## What is measured",
        table(("name", "letter", "what", "pass", "shape like"), quantities()),
        "## Of which layers",
        table(("name", "layers", "made of", "in evolution"), domains()),
        "## From which pass",
        table(("prefix", "pass"), probes),
        "## Of the blocks' structure",
        table(("name", "what"), [[code(name), MEANT[name]] for name in STRUCTURE]),
        f"## The {len(STATISTICS)} that evolution draws from",
        "`--statistics` chooses among them; only the passes that they need are run.",
        table(("statistic", "type"), default),
        f"## {len(rest)} more that formulas may name",
        ", ".join(rest),
    )
