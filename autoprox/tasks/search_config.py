"""The configuration of a search: every value checked where it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from autoprox.errors import nearest
from autoprox.nas.random import RandomSettings
from autoprox.nas.search_parameters import SearchParameters
from autoprox.nas.size_limits import Limit, read_limit
from autoprox.nas.strategies import STRATEGIES
from autoprox.rules import require_whole
from autoprox.tasks.config import ConfigError, resolve_device

KIND = "search"
WEIGHTS = ("fresh", "inherited")


@dataclass(frozen=True)
class SearchConfig:
    """All that a search's result depends on, and what it may use; its run's config.json."""

    space: str
    proxy: str
    strategy: str = "random"
    settings: SearchParameters = field(default_factory=RandomSettings)
    params: Limit = (None, None)
    flops: Limit = (None, None)
    weights: str = "fresh"
    evaluator: str | None = None
    data_dir: str | None = None
    dataset: str = "imagenet"
    images: str | None = None
    text: str | None = None
    batch_size: int = 4
    length: int | None = None  # None: that of `batches`
    seed: int = 0
    top: int = 10
    workers: int = 2
    device: str = "auto"  # resolved at once, to what a run records

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("seed", 0), ("top", 1), ("workers", 1)):
            require_whole(name, getattr(self, name), least)
        if self.weights not in WEIGHTS:
            raise ConfigError(f"unknown weights {self.weights!r}{nearest(self.weights, WEIGHTS)}")
        for name in ("params", "flops"):
            object.__setattr__(self, name, read_limit(name, getattr(self, name)))
        object.__setattr__(self, "device", resolve_device(self.device))

    @classmethod
    def of(cls, **options: Any) -> SearchConfig:
        """A configuration of options by name: its own, and those of the strategy's settings."""
        strategy = options.get("strategy", "random")
        if strategy not in STRATEGIES:
            raise ConfigError(f"unknown strategy {strategy!r}{nearest(str(strategy), STRATEGIES)}")
        for name in ("space", "proxy"):
            if options.get(name) is None:
                raise ConfigError(f"a search needs a {name}, but got none")
        own = {f.name for f in fields(cls)} - {"settings"}
        settings = {f.name for f in fields(STRATEGIES[strategy].settings)}
        for name in options:
            if name not in own | settings:
                others = {f.name for s in STRATEGIES.values() for f in fields(s.settings)}
                of = f" of {strategy}" if name in others else ""
                choices = nearest(name, sorted(settings if of else own | settings))
                raise ConfigError(f"unknown option {name!r}{of}{choices}")
        given = {k: v for k, v in options.items() if k in settings}
        return cls(
            settings=STRATEGIES[strategy].settings(**given),
            **{k: _plain(v) for k, v in options.items() if k in own},
        )

    def to_json(self) -> dict[str, Any]:
        """The content of config.json."""
        return {"kind": KIND, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SearchConfig:
        """The inverse of `to_json`."""
        try:
            own = {k: v for k, v in data.items() if k not in ("kind", "settings")}
            return cls(settings=STRATEGIES[own["strategy"]].settings(**data["settings"]), **own)
        except (KeyError, TypeError) as error:
            rule = "a run's config.json must be one that this version wrote"
            raise ConfigError(f"{rule}, but got: {type(error).__name__} {error}") from error


def _plain(value: Any) -> Any:
    """The text of a path."""
    return str(value) if hasattr(value, "__fspath__") else value
