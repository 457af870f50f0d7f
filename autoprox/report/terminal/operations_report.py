"""The operations of the language as a table and as facts."""

import textwrap
from collections import defaultdict
from collections.abc import Sequence

import sympy
from rich import box
from rich.table import Table

from autoprox.export.pretty_format import pretty_expression
from autoprox.files.json_documents import JSONDocument
from autoprox.primitives import OPERATIONS, LatexFormula, Primitive, fill_template
from autoprox.report.terminal.layout import WIDTH, Part

REDUCED = {"Matrix": "Layers", "Layers": "Network"}
FORMULA_WIDTH = 23


class OperationDetails(JSONDocument):
    """An operation of the language."""

    name: str
    kind: str
    types: list[str]
    formula: str
    latex: str
    rule: str


def operation_details() -> list[OperationDetails]:
    """Return all that `autoprox show --operations --json` says, by kind."""
    kinds = list(dict.fromkeys(operation.kind for operation in OPERATIONS.values()))
    found = sorted(OPERATIONS.values(), key=lambda operation: kinds.index(operation.kind))
    return [
        OperationDetails(
            name=operation.name,
            kind=operation.kind,
            types=types(operation),
            formula=formula(operation),
            latex=fill_template(
                operation.latex,
                x=LatexFormula("x"),
                y=LatexFormula("y"),
                times=LatexFormula(r"\cdot"),
            ),
            rule=" ".join(operation.rule.split()),
        )
        for operation in found
    ]


def operations_report(operations: Sequence[OperationDetails]) -> list[Part]:
    """Show a table for the operations of each kind and of the same types."""
    groups: dict[str, list[OperationDetails]] = defaultdict(list)
    for operation in operations:
        groups[f"{operation.kind}: {'; '.join(operation.types)}"].append(operation)
    tables: list[Part] = []
    name_width = max(map(len, OPERATIONS))
    for heading, rows in groups.items():
        table = Table(
            box=box.SIMPLE,
            title=textwrap.fill(heading, WIDTH, break_on_hyphens=False),
            title_justify="left",
            title_style="",
            show_header=False,
            show_edge=False,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for width in (name_width, FORMULA_WIDTH, WIDTH - name_width - FORMULA_WIDTH - 4):
            table.add_column(width=width)
        for row in rows:
            table.add_row(row.name, row.formula, row.rule)
        tables.append(table)
    return tables


def types(operation: Primitive) -> list[str]:
    """Return the types of an operation, one for each level."""
    found = []
    for level in operation.levels:
        value = level.capitalize()
        result = REDUCED[value] if operation.reduces else value
        found.append(f"{', '.join([value] * operation.arity)} -> {result}")
    return found


def formula(operation: Primitive) -> str:
    """Return the pretty form of an operation on x and y."""
    values = [sympy.Symbol(name, real=True) for name in "xy"[: operation.arity]]
    axis = [sympy.Symbol("")] if operation.along_axis else []
    return pretty_expression(operation.sympy(*values, *axis), WIDTH)
