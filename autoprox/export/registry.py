"""The registry of forms in which a proxy is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import TypeVar

from autoprox.errors import AutoproxError
from autoprox.language import Tree
from autoprox.registry import Registry

Function = TypeVar("Function", bound=Callable[..., str])


class ExportError(AutoproxError):
    """A form that breaks a rule of the registry, or that there isn't."""


@dataclass(frozen=True)
class Exporter:
    """A form; `write` makes a text of a tree, and its docstring says what it is."""

    write: Callable[[Tree], str]

    @property
    def rule(self) -> str:
        """What the form is, in a line."""
        return (getdoc(self.write) or "").partition("\n")[0]


def _prove(name: str, exporter: Exporter) -> None:
    if not isinstance(exporter, Exporter) or not exporter.rule:
        raise ExportError(f"a form is an `Exporter` with a docstring, but {name} is {exporter!r}")


EXPORTERS: Registry[Exporter] = Registry("exporters", "form", ExportError, _prove)


def register(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as a form; it stays a function."""

    def enter(function: Function) -> Function:
        EXPORTERS.register(name, Exporter(function))
        return function

    return enter
