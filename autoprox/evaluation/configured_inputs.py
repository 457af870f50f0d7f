"""The benchmark, the batches and the workers that a configuration asks for."""

from collections.abc import Mapping

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.configurations.shared_options import (
    BACKENDS,
    BenchmarkOptions,
    InputOptions,
    SpreadOptions,
    TaskConfig,
    path_of,
    require_choice,
)
from autoprox.errors import ConfigError
from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_batches
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.runs.folder import digest_of
from autoprox.searchspaces import SearchSpace


def load_configured_benchmark(config: BenchmarkOptions) -> Benchmark:
    """The benchmark that is asked for, or the first that fits."""
    return load_benchmark(
        None if config.benchmark is None else str(config.benchmark),
        space=config.space,
        datasets=config.datasets,
        label=config.label,
        subset=config.subset,
        networks=config.networks,
        data_dir=path_of(config.data_dir),
    )


def load_configured_batches(
    config: InputOptions, space: SearchSpace, classes: Mapping[str, int], seed: int
) -> dict[str, Batch]:
    """Return the batch of inputs of each dataset."""
    return load_batches(
        space,
        classes,
        batch_size=config.batch_size,
        seed=seed,
        images=path_of(config.images),
        text=path_of(config.text),
        length=config.length,
    )


def input_digests(
    batches: Mapping[str, Batch], benchmark: Benchmark | None = None, **texts: str
) -> dict[str, str]:
    """A digest of each thing that a task reads: its benchmark, what networks see, and texts."""
    seen = {f"{dataset} inputs": batch.digest for dataset, batch in batches.items()}
    table = {} if benchmark is None else {"benchmark": benchmark.digest}
    return {**table, **seen, **{name: digest_of(text) for name, text in texts.items()}}


def configured_worker_pool(config: TaskConfig) -> WorkerPool:
    """Return the worker pool that a configuration asks for."""
    if not isinstance(config, SpreadOptions):
        return WorkerPool(config.workers)
    require_choice("backend", config.backend, BACKENDS)
    if (config.backend == "dask") != (config.scheduler is not None):
        got = f"backend {config.backend} with scheduler {config.scheduler or 'none'}"
        raise ConfigError(f"the backend dask, and no other, needs a scheduler, but got {got}")
    return WorkerPool(config.workers, config.scheduler)
