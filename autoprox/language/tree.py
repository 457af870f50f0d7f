"""The language of proxies: typed expression trees over the statistics of untrained networks.

A tree is immutable data. Its text form, `sum(sum(abs(mul(all.weight, all.grad))))`, is read by the
parser below and by nothing else: text is never evaluated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from autoprox.errors import AutoproxError
from autoprox.primitives import COMBINATORS, PRIMITIVES, Primitive

T = TypeVar("T")

MAX_LENGTH = 20_000
MAX_SIZE = 1_000
MAX_DEPTH = 100


class LanguageError(AutoproxError):
    """A text or a tree that isn't of the language."""


@dataclass(frozen=True)
class Type:
    """What a value is for one network: a matrix per layer, a number per layer, or one number."""

    level: Literal["Matrix", "Layers", "Network"]
    domain: str | None = None

    def __str__(self) -> str:
        return f"{self.level}[{self.domain}]" if self.domain else self.level


@dataclass(frozen=True)
class Statistic:
    """A quantity of the layers of a domain, taken from the pass of a probe."""

    probe: Literal["data", "ones", "ntk"]
    domain: Literal["msa", "mlp", "all"]
    quantity: Literal["weight", "grad", "act", "act_grad"]

    def __str__(self) -> str:
        prefix = "" if self.probe == "data" else f"{self.probe}."
        return f"{prefix}{self.domain}.{self.quantity}"

    @property
    def type(self) -> Type:
        return Type("Matrix", "act" if self.quantity.startswith("act") else self.domain)


STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        str(statistic): statistic
        for probe in ("data", "ones", "ntk")
        for statistic in (
            *(Statistic(probe, d, q) for d in ("msa", "mlp", "all") for q in ("weight", "grad")),
            *(Statistic(probe, "mlp", q) for q in ("act", "act_grad")),
        )
    }
)
STRUCTURE = ("width", "tokens", "heads", "one")
TERMINALS: Mapping[str, Type] = MappingProxyType(
    {name: statistic.type for name, statistic in STATISTICS.items()}
    | dict.fromkeys(STRUCTURE, Type("Layers", "block"))
)
OPERATIONS: Mapping[str, Primitive] = MappingProxyType({**PRIMITIVES, **COMBINATORS})
NETWORK = Type("Network")
REDUCED: Mapping[Type, Type] = MappingProxyType(
    {Type("Matrix", "act"): Type("Layers", "mlp")}
    | {Type("Matrix", d): Type("Layers", d) for d in ("msa", "mlp", "all")}
    | {Type("Layers", d): NETWORK for d in ("msa", "mlp", "all", "block")}
)


def result_type(symbol: str, args: Sequence[Type]) -> Type:
    """The type of a symbol's value from the types of its arguments: the whole typing rule."""
    if symbol not in TERMINALS and symbol not in OPERATIONS:
        raise _unknown(symbol, [*TERMINALS, *OPERATIONS])
    arity = OPERATIONS[symbol].arity if symbol in OPERATIONS else 0
    if len(args) != arity:
        noun = "argument" if arity == 1 else "arguments"
        raise LanguageError(f"`{symbol}` takes {arity} {noun}, got {len(args)}")
    if symbol in TERMINALS:
        return TERMINALS[symbol]
    kind, value = OPERATIONS[symbol].kind, args[0]
    if kind == "combinator" and value != NETWORK:
        raise LanguageError(f"`{symbol}` needs a Network, got {value}: reduce it first")
    if kind == "binary" and args[1] != value:
        raise LanguageError(f"`{symbol}` needs two values of one type, got {value} and {args[1]}")
    if symbol not in COMBINATORS and value == NETWORK:
        raise LanguageError(
            f"`{symbol}` needs a Matrix or Layers, got Network; on Network: {_list(COMBINATORS)}"
        )
    return REDUCED[value] if kind == "reduce" else value


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """An expression, well-typed or not constructible; equal to every tree of the same text.

    `size` counts its nodes, `depth` its operations from the root to the deepest terminal.
    """

    symbol: str
    args: tuple[Tree, ...] = ()
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", result_type(self.symbol, [a.type for a in self.args]))

    def fold(self, visit: Callable[[Tree, list[T]], T]) -> T:
        """Visit every distinct subtree once, arguments first, with the results of its arguments."""
        results: dict[Tree, T] = {}
        stack = [self]
        while stack:
            tree = stack[-1]
            if missing := [arg for arg in tree.args if arg not in results]:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if tree not in results:
                results[tree] = visit(tree, [results[arg] for arg in tree.args])
        return results[self]

    @cached_property
    def size(self) -> int:
        return 1 + sum(arg.size for arg in self.args)

    @cached_property
    def depth(self) -> int:
        return 1 + max(arg.depth for arg in self.args) if self.args else 0

    @cached_property
    def digest(self) -> str:
        """The sha256 of the canonical text, in hexadecimal."""
        return hashlib.sha256(str(canonical(self)).encode()).hexdigest()

    @cached_property
    def _text(self) -> str:
        return f"{self.symbol}({', '.join(map(str, self.args))})" if self.args else self.symbol

    @cached_property
    def _hash(self) -> int:
        return hash((self.symbol, self.args))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or (
            self._hash == other._hash and self.symbol == other.symbol and self.args == other.args
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The cached hash of a string differs between processes, so the caches stay behind.
        return Tree, (self.symbol, self.args)


def make(symbol: str, *args: Tree) -> Tree:
    """The tree of a symbol applied to arguments, within the limits of size and depth."""
    tree = Tree(_plain(symbol), args)
    if tree.size > MAX_SIZE or tree.depth > MAX_DEPTH:
        raise LanguageError(
            f"an expression has at most {MAX_SIZE} nodes and depth {MAX_DEPTH}, "
            f"got {tree.size} and {tree.depth}"
        )
    return tree


def require_network(tree: Tree) -> Tree:
    """The tree itself where it is a complete proxy, one number for each network."""
    if tree.type != NETWORK:
        reductions = _list(name for name, p in PRIMITIVES.items() if p.kind == "reduce")
        raise LanguageError(f"a proxy is a Network, got {tree.type}; reduce it by {reductions}")
    return tree


def statistics(tree: Tree) -> frozenset[Statistic]:
    """The statistics that the canonical form of a tree reads."""

    def visit(node: Tree, args: list[frozenset[Statistic]]) -> frozenset[Statistic]:
        own = {STATISTICS[node.symbol]} if node.symbol in STATISTICS else frozenset()
        return frozenset(own).union(*args)

    return canonical(tree).fold(visit)


# One forward pass serves two probes, and the `ones` probe's weights are absolute values.
SAME_VALUE: Mapping[str, Tree] = MappingProxyType(
    {f"ones.{d}.weight": Tree("abs", (Tree(f"{d}.weight"),)) for d in ("msa", "mlp", "all")}
    | {f"ntk.{name}": Tree(name) for name in ("msa.weight", "mlp.weight", "all.weight", "mlp.act")}
)


def canonical(tree: Tree) -> Tree:
    """The one tree that stands for all that these rules show to be equal.

    Every rule keeps the value bit for bit, signs of zero apart: the flags of the primitives drop
    what changes nothing, `neg` moves outward, and commutative arguments are sorted by text.
    """
    return tree.fold(lambda node, args: _simplest(node.symbol, *args))


def _simplest(symbol: str, *args: Tree) -> Tree:
    """The canonical form of a symbol applied to canonical arguments."""
    if not args:
        return SAME_VALUE.get(symbol) or Tree(symbol)
    if OPERATIONS[symbol].commutative:
        args = tuple(sorted(args, key=str))
    rule = _unary_rule if len(args) == 1 else _binary_rule
    return rule(symbol, *args) or Tree(symbol, args)


def _unary_rule(symbol: str, x: Tree) -> Tree | None:
    operation = OPERATIONS[symbol]
    if symbol == x.symbol == "neg":
        return x.args[0]
    if symbol == "neg" and x.symbol == "sub":
        return _simplest("sub", *reversed(x.args))
    if symbol in ("abs", "relu") and nonnegative(x):
        return x
    if operation.idempotent and x.symbol == symbol:
        return x
    if operation.even and x.symbol == "abs":
        return _simplest(symbol, *x.args)
    if operation.even or operation.mirrored:
        if x.symbol == "neg":
            return _simplest(symbol, *x.args)
        if x.symbol == "sub" and str(x.args[1]) < str(x.args[0]):
            return _simplest(symbol, _simplest("sub", *reversed(x.args)))
    return None


def _binary_rule(symbol: str, x: Tree, y: Tree) -> Tree | None:
    if symbol == "mul" and x.symbol == "one":
        return y
    if symbol in ("mul", "div"):
        if y.symbol == "one":
            return x
        if x.symbol == "neg":
            return _simplest("neg", _simplest(symbol, *x.args, y))
        if y.symbol == "neg":
            return _simplest("neg", _simplest(symbol, x, *y.args))
    if symbol == "add" and "neg" in (x.symbol, y.symbol):
        return _simplest("sub", y, *x.args) if x.symbol == "neg" else _simplest("sub", x, *y.args)
    if symbol == "sub" and y.symbol == "neg":
        return _simplest("add", x, *y.args)
    if symbol == "sub" and x.symbol == "neg":
        return _simplest("neg", _simplest("add", *x.args, y))
    return None


def nonnegative(tree: Tree) -> bool:
    """Whether no value of the tree can be negative, as far as its root tells."""
    if tree.symbol in TERMINALS:
        return tree.symbol in STRUCTURE
    return OPERATIONS[tree.symbol].nonnegative


def parse(text: str, names: Mapping[str, str | Tree] = MappingProxyType({})) -> Tree:
    """The tree of a text; `names` are further expressions that the text may use by name.

    The language's own words come first: a name can't change their meaning.
    """
    return _Parser(text, names).whole()


_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*|[(),]|[^\sA-Za-z_(),]+", re.ASCII)


class _Parser:
    """Recursive descent over `name` and `name(expression, ...)`.

    `opened` are the names whose expressions this text is part of, `nesting` how deep it is there.
    """

    def __init__(
        self,
        text: str,
        names: Mapping[str, str | Tree],
        opened: tuple[str, ...] = (),
        nesting: int = 0,
    ) -> None:
        if len(text) > MAX_LENGTH:
            raise LanguageError(
                f"an expression has at most {MAX_LENGTH} characters, got {len(text)}"
            )
        if foreign := re.search(r"[^\x00-\x7f]", text):
            column, found = foreign.start() + 1, _quote(foreign.group())
            raise LanguageError(f"column {column}: an expression is ASCII, found {found}")
        self.names = names
        self.opened = opened
        self.nesting = nesting
        self.tokens = [(match.group(), match.start() + 1) for match in _TOKEN.finditer(text)]
        self.tokens.append(("", len(text) + 1))
        self.position = 0

    @property
    def token(self) -> str:
        return self.tokens[self.position][0]

    def unexpected(self, expected: str) -> LanguageError:
        token, column = self.tokens[self.position]
        found = _quote(token) if token else "the end of the text"
        return LanguageError(f"column {column}: expected {expected}, found {found}")

    def whole(self) -> Tree:
        tree = self.expression()
        if self.token:
            raise self.unexpected("the end of the text")
        return tree

    def expression(self) -> Tree:
        name, column = self.tokens[self.position]
        if not re.match("[A-Za-z_]", name):
            raise self.unexpected("an operation, a terminal or a proxy's name")
        if self.nesting > MAX_DEPTH:
            raise LanguageError(f"column {column}: an expression nests at most {MAX_DEPTH} deep")
        self.position += 1
        args = self.arguments() if self.token == "(" else []
        try:
            return self.application(name, args) if args else self.word(name)
        except LanguageError as error:
            raise LanguageError(f"column {column}: {error}") from None

    def arguments(self) -> list[Tree]:
        args: list[Tree] = []
        self.nesting += 1
        while not args or self.token == ",":
            self.position += 1
            args.append(self.expression())
        if self.token != ")":
            raise self.unexpected("`,` or `)`")
        self.position += 1
        self.nesting -= 1
        return args

    def application(self, name: str, args: list[Tree]) -> Tree:
        if name in self.names and name not in OPERATIONS:
            raise LanguageError(f"{_quote(name)} takes no arguments")
        return make(name, *args)

    def word(self, name: str) -> Tree:
        if name in OPERATIONS:
            raise LanguageError(f"`{name}` needs its arguments in parentheses")
        if _plain(name) in TERMINALS:
            return make(name)
        if name not in self.names:
            raise _unknown(name, [*TERMINALS, *OPERATIONS, *self.names])
        if name in self.opened:
            raise LanguageError(f"{_quote(name)} is defined by itself")
        definition = self.names[name]
        if isinstance(definition, Tree):
            return definition
        opened = (*self.opened, name)
        try:
            return _Parser(definition, self.names, opened, self.nesting + 1).whole()
        except LanguageError as error:
            raise LanguageError(f"in {_quote(name)}, {error}") from None


def _plain(symbol: str) -> str:
    """A terminal's name without the prefix of the default probe."""
    name = symbol.removeprefix("data.")
    return name if name in STATISTICS else symbol


def _unknown(name: str, choices: Sequence[str]) -> LanguageError:
    near = get_close_matches(name[:40].lower(), choices, cutoff=0)
    return LanguageError(f"unknown name {_quote(name)}; nearest: {_list(near)}")


def _quote(text: str) -> str:
    shown = repr(text if len(text) <= 40 else f"{text[:40]}...")[1:-1]
    return f"`{shown}`"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
