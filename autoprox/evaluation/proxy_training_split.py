"""The networks of a benchmark that a proxy was evolved on, as its file records them."""

from autoprox.benchmarks import Benchmark, NetworkSampleError
from autoprox.configurations.commands import EvolveConfig, RankConfig
from autoprox.evaluation.configured_inputs import load_configured_benchmark
from autoprox.runs.proxy_file import Split
from autoprox.scoring.bootstrap import split_networks
from autoprox.searchspaces import Architecture
from autoprox.zoo.proxy_loading import resolve_proxy


def split_record(benchmark: Benchmark, config: EvolveConfig) -> Split:
    """Return what a proxy file records of a split: enough to make it again."""
    return Split(
        benchmark=benchmark.name,
        space=benchmark.space,
        subset=config.subset,
        sample=config.networks,
        networks=len(benchmark.architectures),
        train=config.train,
        split_seed=config.split_seed,
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
        own = {"subset": split.subset, "networks": split.sample}
        if any(getattr(config, name) != value for name, value in own.items()):
            try:
                table = load_configured_benchmark(config.model_copy(update=own))
            except NetworkSampleError:  # the table is another one by now
                continue
        count = len(table.architectures)
        if split.networks == count:  # otherwise it is another table
            train, _ = split_networks(count, split.split_seed, split.train)
            found.update(table.architectures[n] for n in train)
    return found
