"""What must hold for a form of proxies."""

from __future__ import annotations

from random import Random

from autoprox.export import Exporter
from autoprox.language.grammar import Grammar
from autoprox.testing.require import require
from autoprox.zoo import EXPRESSIONS, load_expression


def check_exporter(exporter: Exporter, trees: int = 50) -> None:
    """It says what it is, and writes published and random proxies, each always the same way."""
    require(exporter.rule, "a form says what it is in its docstring")
    rng, grammar = Random(0), Grammar()
    examples = [*map(load_expression, EXPRESSIONS), *(grammar.generate(rng) for _ in range(trees))]
    for tree in examples:
        text = exporter.write(tree)
        require(isinstance(text, str) and text.strip(), f"a form is a text, but not of {tree}")
        require(exporter.write(tree) == text, f"a form is always the same, but not of {tree}")
