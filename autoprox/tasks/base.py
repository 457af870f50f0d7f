"""What every task is, and the life of its run: created, gone on with, finished, or read."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from autoprox.benchmarks import BENCHMARKS, Benchmark, load_benchmark
from autoprox.errors import ConfigError, RunError, nearest
from autoprox.files.folders import require_folder
from autoprox.files.program import command_line
from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_batches
from autoprox.parallel.crew import Crew
from autoprox.parallel.threads import one_thread
from autoprox.progress import Progress, silent
from autoprox.report.html.document import write_page
from autoprox.runs.folder import REPORT, Run, digest_of, require_name
from autoprox.searchspaces import SearchSpace
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.statistics.sources import FAILURES
from autoprox.tasks.configurations import CONFIGURATIONS
from autoprox.tasks.estimate import Estimate
from autoprox.tasks.shared import (
    BACKENDS,
    BenchmarkOptions,
    InputOptions,
    SpreadOptions,
    TaskConfig,
)

C = TypeVar("C", bound=TaskConfig)


class Task(ABC, Generic[C]):
    """What a configuration asks for.

    The constructor checks and reads everything, and measures nothing. `config` is the configuration
    with what it left open filled in: a run records that.
    """

    kind: ClassVar[str]

    def __init__(self, config: C) -> None:
        self.config = config
        self.crew = crew_of(config)

    @property
    @abstractmethod
    def name(self) -> str:
        """How the name of the run's folder ends, unless the user says."""

    @property
    def read(self) -> dict[str, str]:
        """A digest of each thing that was read: a resumed run must read the same."""
        return {}

    @property
    def counts(self) -> list[Shortfall]:
        """What was asked for and what there is, as far as it is known before the work."""
        return []

    def estimate(self) -> Estimate | None:
        """What it will take, where that can be told; one network is measured for it."""
        return None

    @abstractmethod
    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Do it, from the beginning or from where the run stopped; returns the summary."""


def task_of(config: TaskConfig) -> Task[Any]:
    """The task of a configuration, whose statistics' folder may be made."""
    if cache := getattr(config, "cache", None):
        require_folder("the cache", Path(cache))
    module, _, name = config.task.partition(":")
    made: Task[Any] = getattr(import_module(module), name)(config)
    return made


def start(
    config: TaskConfig, progress: Progress = silent, estimated: bool = False
) -> dict[str, Any]:
    """Do what a configuration asks for in a new run; returns the run's summary, and where it is.

    Where it is wished, the progress begins with an estimate of what it takes.
    """
    task = _checked(config)
    if isinstance(config, BenchmarkOptions) and (note := _space_taken(config, task.config)):
        progress("space", 0, 0, note)
    with task.crew:
        if estimated and (estimate := estimate_of(task)):
            progress("estimate", 0, 0, str(estimate))
        return begin(task, progress)


def estimate_of(task: Task[Any]) -> Estimate | None:
    """What a task will take; None where a network fails, which the run itself will tell."""
    try:
        return task.estimate()
    except FAILURES:
        return None


def dry_run(config: TaskConfig) -> dict[str, Any]:
    """The estimate of what a configuration asks for, after all checks; nothing is written."""
    task = _checked(config)
    with task.crew:
        estimate = estimate_of(task)
    found = {} if estimate is None else {**estimate.to_dict(), "text": str(estimate)}
    return {"kind": config.kind, "name": config.name or task.name, "estimate": found or None}


def _checked(config: TaskConfig) -> Task[Any]:
    """The task, whose run's folder may have its name and be made."""
    require_folder("the folder of runs", Path(config.runs))
    task = task_of(config)
    require_name(task.name if config.name is None else config.name)
    return task


def _space_taken(given: BenchmarkOptions, filled: BenchmarkOptions) -> str:
    """Which space was taken where the benchmark has several of these datasets; or nothing."""
    known = BENCHMARKS.get(str(filled.benchmark))
    if given.space is not None or known is None:
        return ""
    wanted = set(filled.datasets or ())
    others = [
        space
        for space, labels in known.labels.items()
        if space != filled.space and any(wanted <= set(own) for own in labels.values())
    ]
    return f"{filled.space}; --space takes another: {', '.join(others)}" if others else ""


def begin(task: Task[Any], progress: Progress = silent) -> dict[str, Any]:
    """Do a task in a new run."""
    config = task.config
    stored = {name: getattr(config, name) for name in config.named(stored=True)}
    device = str(stored.get("device", "cpu"))
    name = config.name or task.name
    stored |= {name: absolute(stored[name]) for name in config.paths() if name in stored}
    made = {"kind": config.kind, **stored}
    with Run.create(Path(config.runs), name, made, device, task.read) as run:
        return finish(task, run, progress)


def resume(
    path: Path,
    progress: Progress = silent,
    kind: str | None = None,
    force: bool = False,
    **resources: Any,
) -> dict[str, Any]:
    """Go on with a run as if it had never stopped; a finished one is read.

    Only resources, which don't change the result, may differ from the run's configuration. Where a
    `kind` is given, the run must be of it. What it reads, and the versions, must be what they were
    when it began, unless it is forced, which is recorded.
    """
    with Run.resume(path, kind) as run:
        if (summary := run.read_summary()) is not None:
            read_config(run, trusted=True, **resources)
            if not (run.path / REPORT).exists():  # the run was stopped just before it
                write_page(run.path)
            return {"run": str(run.path), **summary}
        task = task_of(read_config(run, **resources))
        if differences := run.differences(task.read):
            if not force:
                raise RunError(
                    f"{path} must be resumed with what it was begun with, but is otherwise: "
                    f"{'; '.join(differences)}; `{command_line('resume', path, '--force')}` goes on"
                )
            run.record_differences(differences)
        with task.crew:
            return finish(task, run, progress)


def read_config(run: Run, trusted: bool = False, **resources: Any) -> TaskConfig:
    """The configuration that a run records, with other resources where they are given.

    A function that it would call must be given again, unless the run is trusted: a run is data.
    """
    stored = run.read_config()
    configuration = CONFIGURATIONS.get(str(stored.pop("kind", None)))
    if configuration is None:
        raise RunError(f"the kind of {run.path} must be one of {', '.join(CONFIGURATIONS)}")
    for name in configuration.named(code=True):
        function = stored.get(name)
        if ":" in str(function) and resources.pop(name, None) != function and not trusted:
            raise ConfigError(
                f"{run.path} would call {function}, which must be named again: "
                f"`{command_line('resume', run.path, f'--{name}', str(function))}`"
            )
    allowed = configuration.named(resource=True)
    if beyond := [name for name in resources if name not in allowed]:
        raise ConfigError(
            f"a resumed run keeps its own configuration but for {', '.join(allowed)}, "
            f"but got {', '.join(beyond)}"
        )
    if resources.get("backend") == "local":
        stored.pop("scheduler", None)
    try:
        return configuration(**{**stored, **resources})
    except ConfigError as error:
        raise ConfigError(f"{run.path}/config.json: {error}") from error


def finish(task: Task[Any], run: Run, progress: Progress = silent) -> dict[str, Any]:
    """Do a task in a run, from where it is; returns the summary, and where the run is."""
    progress("run", 0, 0, str(run.path))
    with one_thread():
        summary = task.work(run, progress)
    found = [*shortfalls(task.counts), *summary.pop("shortfalls", ())]
    summary = {**summary, "shortfalls": found}
    run.write_summary(summary)
    write_page(run.path)
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


def digests(
    batches: Mapping[str, Batch], benchmark: Benchmark | None = None, **texts: str
) -> dict[str, str]:
    """A digest of each thing that a task reads: its benchmark, what networks see, and texts."""
    seen = {f"{dataset} inputs": batch.digest for dataset, batch in batches.items()}
    table = {} if benchmark is None else {"benchmark": benchmark.digest}
    return {**table, **seen, **{name: digest_of(text) for name, text in texts.items()}}


def require_choice(noun: str, given: str, choices: Iterable[str]) -> None:
    """Raise ConfigError unless what is given is one of the choices."""
    if given not in choices:
        raise ConfigError(f"unknown {noun} {given!r}{nearest(given, choices)}")


def crew_of(config: TaskConfig) -> Crew:
    """Who does the calls that a task consists of."""
    if not isinstance(config, SpreadOptions):
        return Crew(config.workers)
    require_choice("backend", config.backend, BACKENDS)
    if (config.backend == "dask") != (config.scheduler is not None):
        got = f"backend {config.backend} with scheduler {config.scheduler or 'none'}"
        raise ConfigError(f"the backend dask, and no other, needs a scheduler, but got {got}")
    return Crew(config.workers, config.scheduler)


def path_of(text: str | PathLike[str] | None) -> Path | None:
    """The path of an option that may be left open."""
    return None if text is None else Path(text)


def absolute(value: Any) -> Any:
    """Paths that exist, one or several of them, from the root on; names as they are."""
    if isinstance(value, tuple):
        return tuple(map(absolute, value))
    is_path = isinstance(value, str) and value not in BENCHMARKS and Path(value).exists()
    return str(Path(value).absolute()) if is_path else value


def completed(config: C, **filled: Any) -> C:
    """The configuration with what it left open filled in."""
    return config.model_copy(update=filled)
