"""The networks of a benchmark that a proxy was evolved on, as its proxy file or its run records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprox.benchmarks import Benchmark
from autoprox.runs.folder import Run, as_written
from autoprox.scoring.correlations import split
from autoprox.searchspaces import Architecture
from autoprox.tasks.base import benchmark_of
from autoprox.tasks.configurations import RankConfig
from autoprox.zoo.proxy_loading import find_run, resolve_proxy


def split_record(
    benchmark: Benchmark, subset: str, train: float, split_seed: int
) -> dict[str, Any]:
    """Return what a proxy file records of a split: enough to make it again."""
    return {
        "benchmark": benchmark.name,
        "space": benchmark.space,
        "subset": subset,
        "networks": len(benchmark.architectures),
        "train": train,
        "split_seed": split_seed,
    }


def training_architectures(
    proxy: str, config: RankConfig, benchmark: Benchmark
) -> set[Architecture]:
    """Return the architectures of a ranking's benchmark that a proxy was evolved on.

    None are known of a published name, an expression, or a file of another benchmark.
    """
    found: set[Architecture] = set()
    for one in _splits(proxy):
        if (one["benchmark"], one["space"]) != (benchmark.name, benchmark.space):
            continue
        whole = benchmark
        if one["subset"] != config.subset:
            whole = benchmark_of(config.model_copy(update={"subset": one["subset"]}))
        count = len(whole.architectures)
        if one.get("networks", count) == count:  # or the table is another one by now
            train, _ = split(count, one["split_seed"], one["train"])
            found.update(whole.architectures[n] for n in train)
    return found


def _splits(proxy: str) -> Sequence[Mapping[str, Any]]:
    """Return the recorded splits; an earlier version's run of one space has one in its config."""
    found = resolve_proxy(proxy).found
    if found is None:
        return ()
    if "evolved_on" in found:
        recorded: Sequence[Mapping[str, Any]] = found["evolved_on"]
        return recorded
    place = None if Path(proxy).is_file() else find_run(proxy)
    if place is None or (run := Run.open(place[0])).kind != "evolve":
        return ()
    config = run.read_config()
    if config.get("spaces"):
        return ()
    with as_written(place[0]):
        names = ("space", "subset", "train", "split_seed")
        return ({"benchmark": found["benchmark"], **{name: config[name] for name in names}},)
