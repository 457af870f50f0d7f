"""The forms in which a proxy is written: text, LaTeX, MathML, branches, and those of plug-ins.

It imports the language and sympy, and gives the registry `EXPORTERS` and each form as a function.
"""

from autoprox.export import data_forms  # noqa: F401
from autoprox.export.latex_form import latex
from autoprox.export.mathml_form import mathml
from autoprox.export.pretty_form import pretty
from autoprox.export.python_form import python
from autoprox.export.registry import EXPORTERS, Exporter, ExportError
from autoprox.export.symbols import legend
from autoprox.export.sympy_form import to_sympy
from autoprox.export.tree_form import ascii_tree

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
