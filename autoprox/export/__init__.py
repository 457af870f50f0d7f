"""The formats in which a proxy is written: text, LaTeX, MathML, Python, and those of plug-ins.

It imports the language and sympy, and gives the registry `EXPORTERS` and each format as a function.
"""

from autoprox.export.formats import (
    EXPORTERS,
    Exporter,
    ExportError,
    ascii_tree,
    expression_text,
    json_text,
    latex,
    legend,
    sympy_text,
    to_sympy,
)
from autoprox.export.mathml_format import mathml
from autoprox.export.pretty_format import pretty
from autoprox.export.python_format import python

EXPORTERS.register("sympy", sympy_text)
EXPORTERS.register("json", json_text)
EXPORTERS.register("latex", latex)
EXPORTERS.register("mathml", mathml)
EXPORTERS.register("pretty", pretty)
EXPORTERS.register("python", python)
EXPORTERS.register("torch", python)
EXPORTERS.register("text", expression_text)
EXPORTERS.register("tree", ascii_tree)

__all__ = [
    "EXPORTERS",
    "ExportError",
    "Exporter",
    "ascii_tree",
    "latex",
    "legend",
    "mathml",
    "pretty",
    "python",
    "to_sympy",
]
