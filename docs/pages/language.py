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
    "map": "Elementwise operations",
    "normalise": "Normalisations",
    "depth": "Operations along the depth",
    "reduce": "Reductions",
    "binary": "Binary operations",
    "pair": "Binary reductions",
    "combinator": "Operations on all networks",
}
DRAWN = {
    "map": "Each value is transformed by itself. The plots show the result for x from -3 to 3.",
    "normalise": "Each value is transformed relative to the others. The plots show six values "
    "(hollow) and the results (filled).",
    "depth": "The plots show the values of six layers (hollow) and the results (filled).",
    "reduce": "A matrix becomes a number, or the numbers of all layers a score. The plots show the "
    "result for the matrix [[x, 1], [-0.5, 2]] and x from -3 to 3.",
    "binary": "The plots show the result for x from -3 to 3, with y = -1 (dotted), 0.5 (dashed) "
    "and 2 (solid).",
    "pair": "Two matrices or lists become a number. The plots show the result for (x, 1, -0.5) and "
    "(1, 2, 0.5), with x from -3 to 3.",
    "combinator": "The result depends on all networks that are compared. The plot shows the scores "
    "of six networks (hollow) and the results (filled).",
}
MEANT = {
    "data": "cross-entropy on a mini-batch: seeded noise, or real images or texts",
    "width": "the embedding dimension",
    "tokens": "the number of tokens that the block processes",
    "heads": "the number of attention heads",
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
        headings = ("operation", "plot", "formula", "rule", "types")
        parts.append("\n\n".join([f"## {KINDS[kind]}", DRAWN[kind], table(headings, lines)]))
    among = sum(one.kind == "combinator" for one in OPERATIONS.values())
    return text.page(
        "Operations",
        f"The language has {len(OPERATIONS)} operations, of which {among} (`rank`) works on all "
        "networks at once. No two operations are the same function; this is checked when they are "
        "registered. `Matrix` is a matrix for each linear layer, `Layers` is a number for each "
        "layer, and `Network` is one number. `autoprox show --operations` prints this list.",
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
        usual = "yes" if any(one.domain == domain for one in STATISTICS.values()) else "no"
        yield [code(domain), MEANINGS[domain][1], ", ".join(DOMAIN_PARTS.get(domain, ())), usual]


def statistics() -> str:
    """The page on statistics."""
    probes = [["none", MEANT["data"]], *([f"`{n}.`", MEANINGS[n][1]] for n in ("ones", "ntk"))]
    default = [[code(name), str(one.type)] for name, one in STATISTICS.items()]
    rest = [code(name) for name in EVERY_STATISTIC if name not in STATISTICS]
    return text.page(
        "Statistics",
        "A statistic is measured on the linear layers of an untrained network. Its name has up to "
        "three parts: the pass, the layers and the quantity, as in `ones.mlp.weight` and "
        "`msa.grad`.",
        "## Quantities",
        table(("name", "letter", "meaning", "pass", "shape"), quantities()),
        "## Layers",
        table(("name", "layers", "union of", "in evolution"), domains()),
        "## Passes",
        table(("prefix", "input and loss"), probes),
        "## Structure of the blocks",
        table(("name", "meaning"), [[code(name), MEANT[name]] for name in STRUCTURE]),
        f"## The {len(STATISTICS)} statistics in evolution",
        "`--statistics` selects some of them. Only the passes that are needed are run.",
        table(("statistic", "type"), default),
        f"## {len(rest)} more statistics for formulas",
        ", ".join(rest),
    )
