"""The formats in which a proxy is written: text, LaTeX, MathML, Python, and those of plug-ins.

It imports the language and sympy, and gives the registry `EXPORTERS` and each format as a function.
"""

from autoprox.export.mathml_format import mathml
from autoprox.export.pretty_format import pretty_formula
from autoprox.export.proxy_formats import (
    EXPORTERS,
    Exporter,
    ExportError,
    ascii_tree,
    expression_text,
    formula_legend,
    json_text,
    latex,
    sympy_text,
    to_sympy,
)
from autoprox.export.python_format import python_source

EXPORTERS.register("sympy", sympy_text)
EXPORTERS.register("json", json_text)
EXPORTERS.register("latex", latex)
EXPORTERS.register("mathml", mathml)
EXPORTERS.register("pretty", pretty_formula)
EXPORTERS.register("python", python_source)
EXPORTERS.register("torch", python_source)
EXPORTERS.register("text", expression_text)
EXPORTERS.register("tree", ascii_tree)

__all__ = [
    "EXPORTERS",
    "ExportError",
    "Exporter",
    "ascii_tree",
    "formula_legend",
    "latex",
    "mathml",
    "pretty_formula",
    "python_source",
    "to_sympy",
]
