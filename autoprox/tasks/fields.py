"""The fields of an evolution on several spaces: each is an evolution on one of them."""

from collections.abc import Mapping, Sequence

from autoprox.benchmarks import BENCHMARKS, load_benchmark, offered_datasets
from autoprox.errors import ConfigError, nearest
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_models import TokenSpace
from autoprox.tasks.base import completed
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.evolve import Evolve

IMAGES: dict[str, None] = {"images": None}
TOKENS: dict[str, None] = {"text": None, "length": None}
Place = tuple[str | None, str | None]


def fields_of(config: EvolveConfig) -> dict[str, Evolve]:
    """The field of each of the configuration's spaces, by its name."""
    entries = config.spaces or ()
    if not entries or len(set(entries)) < len(entries):
        got = ", ".join(entries) or "none"
        raise ConfigError(f"each space must be named once, at least one, but got {got}")
    if config.space is not None:
        raise ConfigError(f"either --space or --spaces must be given, but got {config.space} too")
    places = {entry: _place(entry, config) for entry in entries}
    datasets = _datasets(places, config)
    shared = completed(config, spaces=None, hold_out=None, weights=None)
    inputs = _inputs(places)
    fields = [
        Evolve(
            completed(
                shared,
                benchmark=benchmark,
                space=space,
                datasets=datasets[entry],
                **inputs[entry],
            )
        )
        for entry, (benchmark, space) in places.items()
    ]
    return _named(fields, entries)


def _place(entry: str, config: EvolveConfig) -> Place:
    """The benchmark and the space that an entry means; None where the others say."""
    benchmark, colon, space = entry.partition(":")
    if colon and benchmark in BENCHMARKS:
        return benchmark, space
    if entry.endswith(".json"):
        return entry, None
    return None if config.benchmark is None else str(config.benchmark), entry


def _inputs(places: Mapping[str, Place]) -> dict[str, dict[str, None]]:
    """The options of inputs that don't concern a space, where they concern another."""
    found = {}
    for entry, (benchmark, space) in places.items():
        name = space or load_benchmark(benchmark).space
        found[entry] = IMAGES if isinstance(get_space(name), TokenSpace) else TOKENS
    both = IMAGES in found.values() and TOKENS in found.values()
    return found if both else {entry: {} for entry in places}


def _datasets(places: Mapping[str, Place], config: EvolveConfig) -> dict[str, Sequence[str] | None]:
    """Of the datasets that are asked for, those that each space has; None is all."""
    if config.datasets is None:
        return dict.fromkeys(places)
    offered = {entry: offered_datasets(*place, config.label) for entry, place in places.items()}
    known = list(dict.fromkeys(dataset for own in offered.values() for dataset in own))
    for dataset in config.datasets:
        if dataset not in known:
            raise ConfigError(f"no chosen space has a dataset {dataset!r}{nearest(dataset, known)}")
    for entry, own in offered.items():
        if not set(own).intersection(config.datasets):
            asked = ", ".join(config.datasets)
            raise ConfigError(f"{entry} has none of the datasets {asked}: it has {', '.join(own)}")
    return {
        entry: tuple(dataset for dataset in config.datasets if dataset in own)
        for entry, own in offered.items()
    }


def _named(fields: Sequence[Evolve], entries: Sequence[str]) -> dict[str, Evolve]:
    """By the entry, or the name of a table of one's own; each benchmark's space is there once."""
    found: dict[str, Evolve] = {}
    seen: dict[tuple[str, str], str] = {}
    for field, entry in zip(fields, entries, strict=True):
        key = field.benchmark.digest, field.space.name
        name = field.benchmark.name if entry.endswith(".json") else entry
        if key in seen or name in found:
            other = seen.get(key, name)
            raise ConfigError(f"each space must be named once, but {entry} is {other} again")
        seen[key], found[name] = entry, field
    return found
