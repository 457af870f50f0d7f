"""What every task is, and the life of its run: created, gone on with, finished, or read."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.errors import ConfigError, RunError, nearest
from autoprox.inputs.batch import Batch
from autoprox.inputs.batches import load_batches
from autoprox.progress import Progress, silent
from autoprox.runs.folder import Run
from autoprox.searchspaces import SearchSpace
from autoprox.tasks.configurations import CONFIGURATIONS
from autoprox.tasks.shared import BenchmarkOptions, InputOptions, TaskConfig

C = TypeVar("C", bound=TaskConfig)


class Task(ABC, Generic[C]):
    """What a configuration asks for.

    The constructor checks and reads everything, and measures nothing. `config` is the configuration
    with what it left open filled in: a run records that.
    """

    kind: ClassVar[str]

    def __init__(self, config: C) -> None:
        self.config = config

    @property
    @abstractmethod
    def name(self) -> str:
        """How the name of the run's folder ends, unless the user says."""

    @abstractmethod
    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Do it, from the beginning or from where the run stopped; returns the summary."""


def task_of(config: TaskConfig) -> Task[Any]:
    """The task of a configuration."""
    module, _, name = config.task.partition(":")
    made: Task[Any] = getattr(import_module(module), name)(config)
    return made


def start(config: TaskConfig, progress: Progress = silent) -> dict[str, Any]:
    """Do what a configuration asks for in a new run; returns the run's summary, and where it is."""
    return begin(task_of(config), progress)


def begin(task: Task[Any], progress: Progress = silent) -> dict[str, Any]:
    """Do a task in a new run."""
    config = task.config
    stored = {name: getattr(config, name) for name in config.named(stored=True)}
    device = str(stored.get("device", "cpu"))
    name = config.name or task.name
    with Run.create(Path(config.runs), name, {"kind": config.kind, **stored}, device) as run:
        return finish(task, run, progress)


def resume(
    path: Path, progress: Progress = silent, kind: str | None = None, **resources: Any
) -> dict[str, Any]:
    """Go on with a run as if it had never stopped; a finished one is read.

    Only resources, which don't change the result, may differ from the run's configuration. Where a
    `kind` is given, the run must be of it.
    """
    with Run.resume(path, kind) as run:
        config = read_config(run, **resources)
        if (summary := run.read_summary()) is not None:
            return {"run": str(run.path), **summary}
        return finish(task_of(config), run, progress)


def read_config(run: Run, **resources: Any) -> TaskConfig:
    """The configuration that a run records, with other resources where they are given."""
    stored = run.read_config()
    configuration = CONFIGURATIONS.get(str(stored.pop("kind", None)))
    if configuration is None:
        raise RunError(f"the kind of {run.path} must be one of {', '.join(CONFIGURATIONS)}")
    allowed = configuration.named(resource=True)
    if beyond := [name for name in resources if name not in allowed]:
        raise ConfigError(
            f"a resumed run keeps its own configuration but for {', '.join(allowed)}, "
            f"but got {', '.join(beyond)}"
        )
    try:
        return configuration(**{**stored, **resources})
    except ConfigError as error:
        raise ConfigError(f"{run.path}/config.json: {error}") from error


def finish(task: Task[Any], run: Run, progress: Progress = silent) -> dict[str, Any]:
    """Do a task in a run, from where it is; returns the summary, and where the run is."""
    progress("run", 0, 0, str(run.path))
    summary = task.work(run, progress)
    run.write_summary(summary)
    return {"run": str(run.path), **summary}


def benchmark_of(config: BenchmarkOptions) -> Benchmark:
    """The benchmark that is asked for, or the first that fits."""
    return load_benchmark(
        None if config.benchmark is None else str(config.benchmark),
        space=config.space,
        datasets=config.datasets,
        label=config.label,
        subset=config.subset,
        data_dir=path_of(config.data_dir),
    )


def batches_of(
    config: InputOptions, space: SearchSpace, classes: Mapping[str, int], seed: int
) -> dict[str, Batch]:
    """What the networks see, of each dataset."""
    return load_batches(
        space,
        classes,
        batch_size=config.batch_size,
        seed=seed,
        images=path_of(config.images),
        text=path_of(config.text),
        length=config.length,
    )


def require_choice(noun: str, given: str, choices: Iterable[str]) -> None:
    """Raise ConfigError unless what is given is one of the choices."""
    if given not in choices:
        raise ConfigError(f"unknown {noun} {given!r}{nearest(given, choices)}")


def path_of(text: str | PathLike[str] | None) -> Path | None:
    """The path of an option that may be left open."""
    return None if text is None else Path(text)


def completed(config: C, **filled: Any) -> C:
    """The configuration with what it left open filled in."""
    return config.model_copy(update=filled)
