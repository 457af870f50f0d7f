"""The types of the language and its words, as they are registered now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from autoprox.errors import AutoproxError
from autoprox.language.domains import BLOCK_DOMAINS, DOMAINS, parts_of
from autoprox.language.leaves import find_leaf, leaf_words
from autoprox.language.quantities import QUANTITIES
from autoprox.language.types import BLOCK, NETWORK, REDUCED, Type
from autoprox.primitives import COMBINATORS, OPERATIONS, Level, Primitive
from autoprox.registry import View

Probe = Literal["data", "ones", "ntk"]
PROBES: tuple[Probe, ...] = ("data", "ones", "ntk")
LEVELS: Mapping[str, Level] = {"Matrix": "matrix", "Layers": "layers", "Network": "network"}
STRUCTURE = ("width", "tokens", "heads", "one")


class LanguageError(AutoproxError):
    """A text or a tree that isn't of the language."""


@dataclass(frozen=True)
class Statistic:
    """A quantity of the layers of a domain, taken from the pass of a probe."""

    probe: Probe
    domain: str
    quantity: str

    def __str__(self) -> str:
        prefix = "" if self.probe == "data" else f"{self.probe}."
        return f"{prefix}{self.domain}.{self.quantity}"

    @property
    def type(self) -> Type:
        like = QUANTITIES[self.quantity].like
        return Type("Matrix", self.domain if like == "weight" else "act")

    @property
    def parts(self) -> list[Statistic]:
        """The same of each single domain."""
        return [replace(self, domain=domain) for domain in parts_of(self.domain)]


def _statistics(domains: Sequence[str]) -> Mapping[str, Statistic]:
    """Activations are those of the layers of MLPs; outside blocks only parameters are measured."""
    made = [
        Statistic(probe, domain, quantity.name)
        for probe in PROBES
        for like, domains_ in (("weight", domains), ("activation", ("mlp",)))
        for domain in domains_
        for quantity in QUANTITIES.values()
        if quantity.like == like and (domain in BLOCK_DOMAINS or quantity.of_parameters)
    ]
    return {str(statistic): statistic for statistic in made}


def _terminals(words: Mapping[str, Statistic]) -> Mapping[str, Type]:
    types = {name: statistic.type for name, statistic in words.items()}
    return types | dict.fromkeys(STRUCTURE, BLOCK)


# What formulas are made of where nothing else is asked for: the statistics of blocks.
STATISTICS: Mapping[str, Statistic] = View(QUANTITIES, lambda: _statistics(BLOCK_DOMAINS))
TERMINALS: Mapping[str, Type] = View(QUANTITIES, lambda: _terminals(STATISTICS))
EVERY_STATISTIC: Mapping[str, Statistic] = View(QUANTITIES, lambda: _statistics(DOMAINS))


def result_type(symbol: str, args: Sequence[Type]) -> Type:
    """The type of a symbol's value from the types of its arguments: the whole typing rule."""
    if operation := OPERATIONS.get(symbol):
        _require_arity(symbol, operation.arity, args)
        return _applied(operation, args)
    leaf = find_leaf(symbol)
    if leaf is None or leaf.word != symbol:
        raise unknown(symbol, [*leaf_words(), *OPERATIONS])
    _require_arity(symbol, 0, args)
    return leaf.type


def _require_arity(symbol: str, arity: int, args: Sequence[Type]) -> None:
    if len(args) != arity:
        noun = "argument" if arity == 1 else "arguments"
        raise LanguageError(f"`{symbol}` takes {arity} {noun}, got {len(args)}")


def _applied(operation: Primitive, args: Sequence[Type]) -> Type:
    symbol, value = operation.name, args[0]
    if args[-1] != value:
        raise LanguageError(f"`{symbol}` needs two values of one type, got {value} and {args[1]}")
    if LEVELS[value.level] not in (*operation.levels, *operation.formerly):
        raise LanguageError(f"`{symbol}` needs {_misplaced(operation, value)}")
    return REDUCED[value] if operation.reduces else value


def _misplaced(operation: Primitive, value: Type) -> str:
    """What an operation needs, and what can be done with a value of another level."""
    levels = list(LEVELS)
    needed = [name for name in levels if LEVELS[name] in operation.levels]
    nouns = " or ".join("Layers" if name == "Layers" else f"a {name}" for name in needed)
    if levels.index(value.level) < levels.index(needed[0]):
        return f"{nouns}, got {value}: reduce it first"
    hint = f"; on Network: {listed(COMBINATORS)}" if value == NETWORK else ""
    return f"{nouns}, got {value}{hint}"


def plain(symbol: str) -> str:
    """The word that trees hold for a leaf: `msa.grad` for `data.msa.grad`, `2` for `2.0`."""
    leaf = None if symbol in OPERATIONS else find_leaf(symbol)
    return leaf.word if leaf else symbol


def unknown(name: str, choices: Sequence[str]) -> LanguageError:
    """The error about a word that there isn't."""
    near = get_close_matches(name[:40].lower(), choices, cutoff=0)
    return LanguageError(f"unknown name {quote(name)}; nearest: {listed(near)}")


def quote(text: str) -> str:
    """A foreign text in a message: short, and without control characters."""
    shown = repr(text if len(text) <= 40 else f"{text[:40]}...")[1:-1]
    return f"`{shown}`"


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(f"`{name}`" for name in names)
