"""Standalone source text: definitions of ours with all that they need, as one file.

A definition is copied as it is written, after those that it refers to. Decorators that register it
are left out, and so are methods that are of no use there. An operation with a `plain` function is
written as that.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from itertools import groupby
from operator import itemgetter

OURS = "autoprox"
REMARK = re.compile(r"\s*# (type: ignore|noqa|fmt:).*$")
Definition = ast.ClassDef | ast.FunctionDef


class SourceBundle:
    """Definitions in an order in which they can be executed, and the imports they need.

    Members of classes whose names are in `without` are left out.
    """

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self._without = without
        self._imports: set[tuple[str, str]] = set()  # modules, and the name of each or nothing
        self._modules: dict[str, str] = {}  # of the definitions added, by name
        self._constants: dict[str, None] = {}
        self._definitions: list[str] = []

    def add(self, module: str, name: str) -> None:
        """Add a definition of a module, and all that it refers to."""
        if name in self._modules:
            if self._modules[name] != module:
                raise RuntimeError(f"{name} is in both {module} and {self._modules[name]}")
            return
        self._modules[name] = module
        statement = _statements(module)[name]
        registrations = _registrations(module, statement)
        plain = _plain(registrations)
        if plain is not None and isinstance(statement, ast.FunctionDef):
            arguments = [a for a in statement.args.args if a.arg != "out"]
            nodes = [node for part in (plain.body, *arguments) for node in ast.walk(part)]
            self._add_references(module, name, nodes)
            self._definitions.append(_plain_text(module, statement, arguments, plain))
            return
        left_out: list[ast.stmt | ast.expr] = [*registrations]
        if isinstance(statement, ast.ClassDef):
            left_out += [s for s in statement.body if self._without.intersection(_names(s))]
        hidden = {id(node) for part in left_out for node in ast.walk(part)}
        nodes = [node for node in ast.walk(statement) if id(node) not in hidden]
        if isinstance(statement, Definition):
            self._add_references(module, name, nodes)
            self._definitions.append(_text(module, statement, left_out))
        elif any(_is_class(*origin) for origin in _origins(module, name, nodes)):
            self._constants[f"{name} = {getattr(import_module(module), name)!r}"] = None
        else:
            self._add_references(module, name, nodes)
            self._constants[_text(module, statement, left_out)] = None

    def require(self, module: str, name: str = "") -> None:
        """Import a module, or a name of it."""
        self._imports.add((module, name))

    def text(self) -> str:
        """The file, without a docstring."""
        lines = [f"import {module}" for module, name in sorted(self._imports) if not name]
        named = sorted(pair for pair in self._imports if pair[1])
        for module, pairs in groupby(named, key=itemgetter(0)):
            lines.append(f"from {module} import {', '.join(name for _, name in pairs)}")
        groups: dict[bool, list[str]] = {True: [], False: []}
        for line in lines:
            groups[line.split()[1].split(".")[0] in sys.stdlib_module_names].append(line)
        parts = ["from __future__ import annotations", *map("\n".join, groups.values())]
        parts.append("\n".join(self._constants))
        return "\n\n\n".join(["\n\n".join(filter(None, parts)), *self._definitions]) + "\n"

    def _add_references(self, module: str, name: str, nodes: list[ast.AST]) -> None:
        for source, referred in _origins(module, name, nodes):
            (self.add if _is_ours(source) else self.require)(source, referred)


def _origins(module: str, name: str, nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """The module and name of all that a definition's nodes refer to; "" for a module itself."""
    names = (node.id for node in nodes if isinstance(node, ast.Name))
    for referred in dict.fromkeys(names):
        if referred in _statements(module) and referred != name:
            yield _origin(module, referred)


def _origin(module: str, name: str) -> tuple[str, str]:
    """The module in which a name is defined, which may be imported from another, and the name."""
    statement = _statements(module)[name]
    if isinstance(statement, ast.Import):
        return next(a.name for a in statement.names if name in (a.asname, a.name)), ""
    if isinstance(statement, ast.ImportFrom):
        package = import_module(module).__package__ or ""
        source = resolve_name("." * statement.level + (statement.module or ""), package)
        return _origin(source, name) if _is_ours(source) else (source, name)
    return module, name


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == OURS


def _is_class(module: str, name: str) -> bool:
    return _is_ours(module) and isinstance(_statements(module)[name], ast.ClassDef)


@cache
def _source(module: str) -> str:
    with open(str(import_module(module).__file__), encoding="utf-8") as file:
        return file.read()


@cache
def _statements(module: str) -> Mapping[str, ast.stmt]:
    """The statement that gives each name of a module its meaning, also under TYPE_CHECKING."""
    found: dict[str, ast.stmt] = {}
    for statement in ast.parse(_source(module)).body:
        for inner in statement.body if isinstance(statement, ast.If) else [statement]:
            for name in _names(inner):
                found.setdefault(name, inner)
    return found


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, Definition):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and n.id != "_"]


def _registrations(module: str, statement: ast.stmt) -> list[ast.expr]:
    """The decorators that are ours, or made by an assignment of what is ours: they register."""
    known = _statements(module)

    def is_ours(node: ast.expr) -> bool:
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & set(known)
        return any(
            is_ours(found.value)
            if isinstance(found := known[name], ast.Assign)
            else isinstance(found, ast.ImportFrom) and _is_ours(_origin(module, name)[0])
            for name in names
        )

    decorators = statement.decorator_list if isinstance(statement, Definition) else []
    return [d for d in decorators if is_ours(d.func if isinstance(d, ast.Call) else d)]


def _plain(registrations: list[ast.expr]) -> ast.Lambda | None:
    """The `plain` function with which an operation is registered."""
    calls = [call for call in registrations if isinstance(call, ast.Call)]
    found = (k.value for call in calls for k in call.keywords if k.arg == "plain")
    return next((value for value in found if isinstance(value, ast.Lambda)), None)


def _plain_text(
    module: str, function: ast.FunctionDef, arguments: list[ast.arg], plain: ast.Lambda
) -> str:
    """An operation's function with the body of its `plain` one."""
    docstring, body = (
        ast.get_source_segment(_source(module), n) for n in (function.body[0], plain.body)
    )
    if plain.body.lineno > plain.lineno:
        body = f"(\n        {body}\n    )"
    signature = f"def {function.name}({', '.join(map(ast.unparse, arguments))}) -> Tensor:"
    return f"{signature}\n    {docstring}\n    return {body}"


def _text(module: str, statement: ast.stmt, left_out: list[ast.stmt | ast.expr]) -> str:
    """A statement as it is written, with the comments above it, without the parts left out."""
    lines, dropped = _source(module).splitlines(), set[int]()
    for part in left_out:
        dropped.update(range(_first_line(part), (part.end_lineno or 0) + 1))
    first = _first_line(statement)
    while lines[first - 2].startswith("#"):
        first -= 1
    last = statement.end_lineno or first
    kept = [REMARK.sub("", lines[n - 1]) for n in range(first, last + 1) if n not in dropped]
    return re.sub(r"\n\n\n+", "\n\n", "\n".join(kept)).strip("\n")


def _first_line(node: ast.stmt | ast.expr) -> int:
    """The first line, with the decorators."""
    if isinstance(node, Definition) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno
