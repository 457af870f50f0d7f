"""The parser of the text form, `sum(sum(abs(mul(all.weight, all.grad))))`.

All text is parsed here, and never evaluated.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from autoprox.evolution_parameters import MAX_DEPTH
from autoprox.language.leaf_kinds import LanguageError, find_leaf, leaf_words, quote_foreign_text
from autoprox.language.tree import Tree, make_tree, unknown_name_error
from autoprox.primitives import OPERATIONS

MAX_LENGTH = 20_000
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*|[(),]|[^\sA-Za-z_(),]+", re.ASCII)


def parse_expression(text: str, names: Mapping[str, str | Tree] = MappingProxyType({})) -> Tree:
    """The tree of a text; `names` are further expressions that the text may use by name.

    The language's own words come first: a name can't change their meaning.
    """
    return _Parser(text, names).whole()


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
            column, found = foreign.start() + 1, quote_foreign_text(foreign.group())
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
        found = quote_foreign_text(token) if token else "the end of the text"
        return LanguageError(f"column {column}: expected {expected}, found {found}")

    def whole(self) -> Tree:
        tree = self.expression()
        if self.token:
            raise self.unexpected("the end of the text")
        return tree

    def expression(self) -> Tree:
        name, column = self.tokens[self.position]
        if self.nesting > MAX_DEPTH:
            raise LanguageError(f"column {column}: an expression nests at most {MAX_DEPTH} deep")
        try:
            is_name = re.match("[A-Za-z_]", name) or find_leaf(name)
        except LanguageError as error:
            raise LanguageError(f"column {column}: {error}") from None
        if not is_name:
            raise self.unexpected("an operation, a terminal or a proxy's name")
        self.position += 1
        args = self.arguments() if self.token == "(" else []
        try:
            if not args:
                return self.word(name)
            if name in self.names and name not in OPERATIONS:
                raise LanguageError(f"{quote_foreign_text(name)} takes no arguments")
            return make_tree(name, *args)
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

    def word(self, name: str) -> Tree:
        if name in OPERATIONS:
            raise LanguageError(f"`{name}` needs its arguments in parentheses")
        if find_leaf(name):
            return make_tree(name)
        if name not in self.names:
            raise unknown_name_error(name, [*leaf_words(), *OPERATIONS, *self.names])
        if name in self.opened:
            raise LanguageError(f"{quote_foreign_text(name)} is defined by itself")
        definition = self.names[name]
        if isinstance(definition, Tree):
            return definition
        try:
            opened = (*self.opened, name)
            return _Parser(definition, self.names, opened, self.nesting + 1).whole()
        except LanguageError as error:
            raise LanguageError(f"in {quote_foreign_text(name)}, {error}") from None
