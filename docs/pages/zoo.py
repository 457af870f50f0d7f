"""The page on published proxies, from the registry."""

import inspect

from autoprox.export.pretty_format import pretty_formula
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names
from autoprox.zoo.functions import FUNCTION_PROXIES, RANK_COMBINATIONS
from autoprox.zoo.prior_file import read_prior_file

from . import text
from .text import block, code


def page() -> str:
    """The whole page."""
    own = " and ".join(", ".join(map(code, read_prior_file().groups)).rsplit(", ", 1))
    return text.page(
        "Published proxies",
        f"The zoo has {len(EXPRESSION_PROXIES)} expressions of the language, "
        f"{len(FUNCTION_PROXIES)} functions with their own passes, and {len(RANK_COMBINATIONS)} "
        f"combination of ranks. All are published, except {own}, which are power laws that come "
        "with autoprox. The counts `params` and "
        "`flops` can be used like proxies. `autoprox rank --proxies all` measures all of them, "
        "and `autoprox show NAME` explains one. If the text and the released code of a paper "
        "differ, the entry says which is implemented.",
        "## Expressions",
        *map(expression, EXPRESSION_PROXIES),
        "## Functions",
        *map(function, FUNCTION_PROXIES),
        "## Combinations of ranks",
        "The score of a network depends on the other networks, so these proxies work in "
        "`rank`, `evolve` and `compare`, but not in `search` and `score`.",
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
    return "\n\n".join(
        [f"### {name}", f"{own.citation}.", equation, f"Combines {parts}. {own.rule}"]
    )
