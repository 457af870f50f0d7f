"""The networks of a benchmark that a proxy was evolved on, as its file records them."""

from autoprox.benchmarks import Benchmark
from autoprox.configurations.commands import RankConfig
from autoprox.evaluation.configured_inputs import load_configured_benchmark
from autoprox.runs.proxy_file import Split
from autoprox.scoring.bootstrap import split_networks
from autoprox.searchspaces import Architecture
from autoprox.zoo.proxy_loading import resolve_proxy


def split_record(benchmark: Benchmark, subset: str, train: float, split_seed: int) -> Split:
    """Return what a proxy file records of a split: enough to make it again."""
    return Split(
        benchmark=benchmark.name,
        space=benchmark.space,
        subset=subset,
        networks=len(benchmark.architectures),
        train=train,
        split_seed=split_seed,
    )


def evolved_on_architectures(
    proxy: str, config: RankConfig, benchmark: Benchmark
) -> set[Architecture]:
    """Return the architectures of a ranking's benchmark that a proxy was evolved on.

    None are known of a published name, an expression, or a file of another benchmark.
    """
    found: set[Architecture] = set()
    proxy_file = resolve_proxy(proxy).found
    for split in proxy_file.evolved_on if proxy_file else ():
        if (split.benchmark, split.space) != (benchmark.name, benchmark.space):
            continue
        table = benchmark
        if split.subset != config.subset:
            table = load_configured_benchmark(config.model_copy(update={"subset": split.subset}))
        count = len(table.architectures)
        if split.networks == count:  # otherwise the table is another one by now
            train, _ = split_networks(count, split.split_seed, split.train)
            found.update(table.architectures[n] for n in train)
    return found
