"""Source text that stands alone: definitions of ours with all that they need, as one file.

A definition is copied as it is written, after those that it refers to. What registers it is left
out, and so are the methods that are said to be of no use there.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType

OURS = "autoprox"
REMARK = re.compile(r"\s*# (type: ignore|noqa|fmt:).*$")
Statement = ast.stmt
Definition = ast.ClassDef | ast.FunctionDef


class Bundle:
    """Definitions in an order in which they can be executed, and the imports they need.

    A function or class that `instead` has by the same name is taken in place of another.
    """

    def __init__(
        self, instead: ModuleType | None = None, without: frozenset[str] = frozenset()
    ) -> None:
        self._instead = instead
        self._without = without
        self._imports: set[tuple[str, str]] = set()  # modules, and the name of each or nothing
        self._modules: dict[str, str] = {}  # of what was added, by name
        self._constants: list[str] = []
        self._definitions: list[str] = []

    def add(self, module: str, name: str) -> None:
        """Add a definition of a module, and all that it refers to."""
        if self._instead is not None:
            plain = _statements(self._instead.__name__).get(name)
            module = self._instead.__name__ if isinstance(plain, Definition) else module
        if name in self._modules:
            if self._modules[name] != module:
                raise RuntimeError(f"{name} is in both {module} and {self._modules[name]}")
            return
        self._modules[name] = module
        statement = _statements(module)[name]
        if isinstance(statement, Definition):
            self._resolve(module, statement)
            self._definitions.append(self._text(module, statement))
        elif any(isinstance(s, ast.ClassDef) for s in self._ours(module, statement)):
            self._constants.append(f"{name} = {getattr(import_module(module), name)!r}")
        else:
            self._resolve(module, statement)
            text = self._text(module, statement)
            self._constants += [] if text in self._constants else [text]

    def require(self, module: str, name: str = "") -> None:
        """Import a module, or a name of it."""
        self._imports.add((module, name))

    def text(self) -> str:
        """The file, without a docstring."""
        constants = ["\n".join(self._constants)] if self._constants else []
        parts = [self._import_lines(), *constants]
        return "\n\n".join(parts) + "\n\n\n" + "\n\n\n".join(self._definitions) + "\n"

    def _resolve(self, module: str, statement: Statement) -> None:
        """Add what a statement refers to."""
        known = _statements(module)
        for name in self._references(module, statement):
            found = known[name]
            if isinstance(found, ast.ImportFrom):
                source = _source(module, found)
                if _is_ours(source):
                    self.add(*_defining(source, name))
                else:
                    self.require(source, name)
            elif isinstance(found, ast.Import):
                self.require(next(a.name for a in found.names if name in (a.asname, a.name)))
            else:
                self.add(module, name)

    def _ours(self, module: str, statement: Statement) -> Iterator[Statement]:
        """The definitions of ours that a statement refers to."""
        known = _statements(module)
        for name in self._references(module, statement):
            found = known[name]
            if isinstance(found, ast.ImportFrom) and _is_ours(_source(module, found)):
                yield _statements(_defining(_source(module, found), name)[0])[name]
            elif not isinstance(found, ast.Import | ast.ImportFrom):
                yield found

    def _references(self, module: str, statement: Statement) -> list[str]:
        known = _statements(module)
        left_out = [*_registrations(module, statement), *self._left_out(statement)]
        hidden = {id(node) for part in left_out for node in ast.walk(part)}
        names = (
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and id(node) not in hidden
        )
        own = statement.name if isinstance(statement, Definition) else None
        return [name for name in dict.fromkeys(names) if name in known and name != own]

    def _left_out(self, statement: Statement) -> list[Statement]:
        body = statement.body if isinstance(statement, ast.ClassDef) else []
        kinds = (Definition, ast.AnnAssign)
        return [s for s in body if isinstance(s, kinds) and self._without.intersection(_names(s))]

    def _text(self, module: str, statement: Statement) -> str:
        lines = _lines(module)
        dropped: set[int] = set()
        left_out: list[ast.stmt | ast.expr] = [*self._left_out(statement)]
        for part in (*_registrations(module, statement), *left_out):
            dropped.update(range(_begin(part), (part.end_lineno or 0) + 1))
        first = _begin(statement)
        while lines[first - 2].startswith("#"):
            first -= 1
        last = statement.end_lineno or first
        kept = [REMARK.sub("", lines[n - 1]) for n in range(first, last + 1) if n not in dropped]
        return re.sub(r"\n\n\n+", "\n\n", "\n".join(kept)).strip("\n")

    def _import_lines(self) -> str:
        """Those of the standard library, and the others."""
        named: dict[str, list[str]] = {}
        for module, name in sorted(self._imports):
            named.setdefault(module, []).extend([name] if name else [])
        plain = [f"import {module}" for module, name in sorted(self._imports) if not name]
        lines = plain + [
            f"from {m} import {', '.join(names)}" for m, names in named.items() if names
        ]
        groups: dict[bool, list[str]] = {True: [], False: []}
        for line in lines:
            groups[line.split()[1].split(".")[0] in sys.stdlib_module_names].append(line)
        future = "from __future__ import annotations"
        return "\n\n".join([future, *("\n".join(group) for group in groups.values() if group)])


@cache
def _lines(module: str) -> list[str]:
    path = import_module(module).__file__
    with open(str(path), encoding="utf-8") as file:
        return file.read().splitlines()


@cache
def _statements(module: str) -> Mapping[str, Statement]:
    """The statement that gives each name of a module its meaning."""
    found: dict[str, Statement] = {}
    for statement in _top(ast.parse("\n".join(_lines(module))).body):
        for name in _names(statement):
            found.setdefault(name, statement)
    return found


def _top(body: list[Statement]) -> Iterator[Statement]:
    """The statements of a module, also those under TYPE_CHECKING."""
    for statement in body:
        yield from _top(statement.body) if isinstance(statement, ast.If) else (statement,)


def _names(statement: Statement) -> list[str]:
    if isinstance(statement, Definition):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and n.id != "_"]


def _registrations(module: str, statement: Statement) -> list[ast.expr]:
    """The decorators that are ours, or made by an assignment of what is ours: they register."""
    if not isinstance(statement, Definition):
        return []
    known = _statements(module)

    def is_ours(node: ast.expr) -> bool:
        names = (known.get(part.id) for part in ast.walk(node) if isinstance(part, ast.Name))
        return any(
            is_ours(found.value)
            if isinstance(found, ast.Assign)
            else isinstance(found, ast.ImportFrom) and _is_ours(_source(module, found))
            for found in names
        )

    return [
        d for d in statement.decorator_list if is_ours(d.func if isinstance(d, ast.Call) else d)
    ]


def _begin(node: ast.stmt | ast.expr) -> int:
    """The first line, with the decorators."""
    if isinstance(node, Definition) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno


def _source(module: str, statement: ast.ImportFrom) -> str:
    """The module that is imported from."""
    package = import_module(module).__package__ or ""
    return resolve_name("." * statement.level + (statement.module or ""), package)


def _defining(module: str, name: str) -> tuple[str, str]:
    """The module in which a name that may be imported from another is defined."""
    statement = _statements(module)[name]
    if isinstance(statement, ast.ImportFrom):
        return _defining(_source(module, statement), name)
    return module, name


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == OURS
