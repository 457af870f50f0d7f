"""The life of a run: begun, estimated, resumed or finished, with its summary and its page."""

from importlib import import_module
from pathlib import Path
from typing import Any

from autoprox.benchmarks import BENCHMARKS
from autoprox.commands.task import Task
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import BenchmarkOptions, TaskConfig, absolute
from autoprox.errors import ConfigError, RunError
from autoprox.evaluation.time_estimate import Estimate
from autoprox.files.folders import require_folder
from autoprox.files.program import command_line
from autoprox.parallel.threads import one_thread
from autoprox.progress import Progress, silent
from autoprox.report.html.document import write_page
from autoprox.runs.folder import REPORT, Run, require_name
from autoprox.shortfalls import shortfalls
from autoprox.statistics.sources import FAILURES


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
