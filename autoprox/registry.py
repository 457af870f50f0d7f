"""Registries of named items, which other installed packages can extend.

A package adds items by entry points of the group `autoprox.<kind>`: the name is that of the item,
the value the location of the object, `package.module:NAME`. They are loaded when the registry is
first listed, or asked for an unknown name; those that can't be loaded are warnings.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from autoprox.errors import AutoproxError, ellipsized_line, nearest, one_line

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A warning that an installed package's item can't be used."""


class Registry(Mapping[str, T], Generic[T]):
    """Items of one kind by name, in the order of registration.

    `prove` raises `error` for an item that breaks a rule of its kind; all registered items passed.
    """

    def __init__(
        self,
        kind: str,
        noun: str,
        error: type[AutoproxError],
        prove: Callable[[str, T], None] = lambda name, item: None,
    ) -> None:
        self.kind = kind
        self._noun = noun
        self._error = error
        self._prove = prove
        self._items: dict[str, T] = {}
        self._changes = 0
        self._loaded = False

    def register(self, name: str, item: T) -> T:
        """Add an item under a new name, if it satisfies the rules of its kind, and return it."""
        if name in self._items:
            raise self._error(f"the name of a new {self._noun} must be new, but got {name!r}")
        self._prove(name, item)
        self._items[name] = item
        self._changes += 1
        return item

    def find(self, name: str, aliases: Iterable[str] = ()) -> T:
        """Return the item of a name, or raise an error that lists the names and the aliases."""
        if name not in self:
            known = (*aliases, *self)
            raise self._error(f"unknown {self._noun} {name!r}{nearest(name, known)}")
        return self[name]

    @contextmanager
    def trial(self, name: str, item: T) -> Iterator[T]:
        """Register an item within the context, in place of any other of its name."""
        before = self._all()
        self._items = {known: other for known, other in before.items() if known != name}
        try:
            yield self.register(name, item)
        finally:
            self._items = before
            self._changes += 1

    @property
    def registered(self) -> Mapping[str, T]:
        """The items so far, without those of packages that aren't loaded yet."""
        return self._items

    @property
    def changes(self) -> int:
        """The number of changes."""
        self._all()
        return self._changes

    def __getitem__(self, name: str) -> T:
        # A package that is being loaded may read what is here already.
        return self._items[name] if name in self._items else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if not self._loaded:
            self._loaded = True  # first, because what is loaded may read the registry
            for point in sorted(entry_points(group=f"autoprox.{self.kind}")):
                self._load(point)
        return self._items

    def _load(self, point: EntryPoint) -> None:
        try:
            self.register(point.name, point.load())
        except Exception as error:  # of foreign code
            package = point.dist.name if point.dist else "an installed package"
            reason = one_line(error)
            message = f"{point.group} {point.name!r} of {package} is left out: {reason}"
            warnings.warn(PluginWarning(ellipsized_line(message)), stacklevel=2)


class View(Mapping[str, T], Generic[T]):
    """A mapping that a function derives from a registry, updated with it."""

    def __init__(self, registry: Registry[Any], make: Callable[[], Mapping[str, T]]) -> None:
        self._registry = registry
        self._make = make
        self._made: Mapping[str, T] = {}
        self._changes = -1

    def __getitem__(self, name: str) -> T:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def _now(self) -> Mapping[str, T]:
        changes = self._registry.changes
        if changes != self._changes:
            self._made, self._changes = self._make(), changes
        return self._made
