"""The page on published proxies, from the registry."""

import inspect

from autoprox.export.pretty_format import pretty_formula
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names
from autoprox.zoo.functions import FUNCTION_PROXIES, RANK_COMBINATIONS

from . import text
from .text import block, code


def page() -> str:
    """The whole page."""
    return text.page(
        "Published proxies",
        f"{len(EXPRESSION_PROXIES)} are expressions of the language, {len(FUNCTION_PROXIES)} "
        f"functions that run passes of their own, {len(RANK_COMBINATIONS)} combine the ranks of "
        "functions; `params` and `flops` are counts next to them. "
        "`autoprox rank --proxies all` measures all of them, `autoprox show NAME` explains one. "
        "Where text and released code of a paper differ, what counts here is said with the proxy.",
        "## Expressions",
        *map(expression, EXPRESSION_PROXIES),
        "## Functions",
        *map(function, FUNCTION_PROXIES),
        "## Combinations of ranks",
        "Their score depends on all networks that are compared, so that `rank`, `evolve` and "
        "`compare` measure them, but `search` and `score` don't take them.",
        *map(combination, RANK_COMBINATIONS),
    )


def expression(name: str) -> str:
    """A proxy of the language: paper, formula, text."""
    own = EXPRESSION_PROXIES[name]
    tree = parse_with_zoo_names(name)
    return "\n\n".join(
        [
            f"### {name}",
            f"{own.citation}.",
            block("text", pretty_formula(tree)),
            code(own.expression),
        ]
    )


def function(name: str) -> str:
    """A proxy that is a function: paper, equation, what it says."""
    own = FUNCTION_PROXIES[name]
    rule = inspect.getdoc(own.function) or ""
    return "\n\n".join([f"### {name}", f"{own.citation}.", block("text", own.equation), rule])


def combination(name: str) -> str:
    """A proxy that combines the ranks of functions: paper, equation, functions, what it says."""
    own = RANK_COMBINATIONS[name]
    parts = ", ".join(f"[{part}](#{part})" for part in own.parts)
    equation = block("text", own.equation)
    return "\n\n".join([f"### {name}", f"{own.citation}.", equation, f"Of {parts}. {own.rule}"])
