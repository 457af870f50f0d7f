"""The configuration of a discovery: every value checked where it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from autoprox.errors import AutoproxError, nearest
from autoprox.evolution.loop import STRATEGIES, Settings
from autoprox.language.grammar import Limits
from autoprox.language.tree import STATISTICS
from autoprox.rules import require_number, require_whole
from autoprox.statistics.cached import GIB

DEVICES = ("auto", "cpu", "cuda", "mps")


class ConfigError(AutoproxError):
    """An option that doesn't exist, or a value that breaks its rule."""


@dataclass(frozen=True)
class Config:
    """All that a discovery's result depends on, and what it may use; a run's config.json."""

    benchmark: str | None = None  # None: the first that has what is asked for
    space: str | None = None
    datasets: tuple[str, ...] | None = None
    label: str | None = None
    subset: str = "main"
    data_dir: str | None = None
    images: str | None = None
    text: str | None = None
    batch_size: int = 4
    length: int | None = None  # None: that of `batches`
    thin: int | None = None  # None: by the size of the networks
    train: float = 0.6
    seed: int = 0
    split_seed: int | None = None  # None: the seed
    strategy: str = "mixture"
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    statistics: tuple[str, ...] = tuple(STATISTICS)
    weights: tuple[float, ...] | None = None
    memory: int = 4 * GIB
    workers: int = 2
    device: str = "auto"  # resolved at once, to what a run records
    cache: str | None = None  # None: the user's cache folder

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("workers", 1), ("seed", 0)):
            require_whole(name, getattr(self, name), least)
        for name, least in (("thin", 1), ("split_seed", 0), ("length", 2)):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), least)
        require_whole("memory", self.memory, 1)
        require_number("train", self.train, "> 0 and < 1", lambda part: 0 < part < 1)
        if self.strategy not in STRATEGIES:
            choices = nearest(self.strategy, STRATEGIES)
            raise ConfigError(f"unknown strategy {self.strategy!r}{choices}")
        object.__setattr__(self, "device", resolve_device(self.device))

    @classmethod
    def of(cls, **options: Any) -> Config:
        """A configuration of options by name: its own, and those of `Settings` and `Limits`."""
        own = {f.name for f in fields(cls)} - {"settings", "limits"}
        settings, limits = ({f.name for f in fields(part)} for part in (Settings, Limits))
        for name in options:
            if name not in own | settings | limits:
                choices = nearest(name, sorted(own | settings | limits))
                raise ConfigError(f"unknown option {name!r}{choices}")
        return cls(
            settings=Settings(**{k: v for k, v in options.items() if k in settings}),
            limits=Limits(**{k: v for k, v in options.items() if k in limits}),
            **{k: _plain(v) for k, v in options.items() if k in own},
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """The inverse of `dataclasses.asdict`, after JSON has made lists of tuples."""
        try:
            parts = {"settings": Settings(**data["settings"]), "limits": Limits(**data["limits"])}
            return cls(**{k: _plain(v) for k, v in {**data, **parts}.items()})
        except (KeyError, TypeError) as error:
            rule = "a run's config.json must be one that this version wrote"
            raise ConfigError(f"{rule}, but got: {type(error).__name__} {error}") from error


def resolve_device(name: str) -> str:
    """The device that is meant: `auto` is CUDA, else MPS, else the CPU."""
    usable = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, found in usable.items() if found)
    if name not in DEVICES:
        raise ConfigError(f"unknown device {name!r}{nearest(name, DEVICES)}")
    if not usable[name]:
        here = ", ".join(["auto", *(device for device, found in usable.items() if found)])
        raise ConfigError(f"a device must be there, but {name!r} is not; choose from {here}")
    return name


def _plain(value: Any) -> Any:
    """A tuple of a list, and the text of a path."""
    if isinstance(value, list):
        return tuple(value)
    return str(value) if hasattr(value, "__fspath__") else value
