"""The registry of forms in which a proxy is written: documented functions of a tree."""

from collections.abc import Callable

from autoprox.errors import AutoproxError
from autoprox.language import Tree
from autoprox.registry import Registry

Exporter = Callable[[Tree], str]


class ExportError(AutoproxError):
    """A form that breaks a rule of the registry, or that there isn't."""


def _prove(name: str, exporter: Exporter) -> None:
    if not callable(exporter) or not exporter.__doc__:
        raise ExportError(f"a form is a function with a docstring, but {name} is {exporter!r}")


EXPORTERS: Registry[Exporter] = Registry("exporters", "form", ExportError, _prove)
