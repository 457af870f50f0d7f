"""Runs from start to end: checks, estimates, the work, resuming, and the summary and page."""

from pathlib import Path
from typing import Any

from autoprox.benchmarks import BENCHMARKS
from autoprox.commands.curve import CurveSummary
from autoprox.commands.rank import RankSummary
from autoprox.commands.task_interface import CommandTask, read_run_summary, task_class_for_kind
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import BenchmarkOptions, TaskConfig, absolute
from autoprox.errors import ConfigError, RunError
from autoprox.evaluation.time_estimate import DryRun, TimeEstimate
from autoprox.files.atomic_writes import write_text
from autoprox.files.folder_checks import require_folder
from autoprox.files.rerun_command import rerun_command_line
from autoprox.parallel.threads import single_torch_thread
from autoprox.progress import Progress, silent
from autoprox.report.html.curve_figure import curve_figure
from autoprox.report.html.page_rendering import write_page
from autoprox.report.terminal.rank_report import as_csv, as_markdown
from autoprox.runs.folder import REPORT, Run, require_name
from autoprox.runs.summary import Summary
from autoprox.shortfalls import unmet
from autoprox.statistics.matrix_sources import FAILURES


def start(config: TaskConfig, progress: Progress = silent, estimated: bool = False) -> Summary:
    """Do a configuration's task in a new run, and return the run's summary.

    If `estimated`, the progress begins with an estimate of what it takes.
    """
    task = _checked(config)
    if isinstance(config, BenchmarkOptions) and (note := _other_spaces(config, task.config)):
        progress("space", 0, 0, note)
    for option, chosen in task.chosen.items():
        progress(option, 0, 0, f"{chosen}; --{option} takes another")
    with task.pool:
        if estimated and (estimate := _estimate(task)):
            progress("estimate", 0, 0, str(estimate))
        return begin(task, progress)


def dry_run(config: TaskConfig) -> DryRun:
    """Estimate a configuration's task after all checks; nothing is written."""
    task = _checked(config)
    with task.pool:
        estimate = _estimate(task)
    return DryRun(kind=config.kind, name=config.name or task.name, estimate=estimate)


def begin(task: CommandTask[Any, Any], progress: Progress = silent) -> Summary:
    """Do a task in a new run."""
    config = task.config
    stored = {name: getattr(config, name) for name in config.named(stored=True)}
    stored |= {name: absolute(stored[name]) for name in config.paths() if name in stored}
    recorded = {"kind": config.kind, **stored}
    device = str(stored.get("device", "cpu"))
    name = config.name or task.name
    with Run.create(Path(config.runs), name, recorded, device, task.read) as run:
        return finish(task, run, progress)


def resume_run(
    path: Path,
    progress: Progress = silent,
    kind: str | None = None,
    force: bool = False,
    **resources: Any,
) -> Summary:
    """Go on with a run as if it had never stopped; a finished one is read.

    Only resources, which don't change the result, may differ from the run's configuration. If a
    `kind` is given, the run must be of that kind. Versions and everything that the run reads must
    be unchanged since it began, unless `force` is set, which is recorded.
    """
    with Run.resume(path, kind) as run:
        if (summary := read_run_summary(run)) is not None:
            read_config(run, trusted=True, **resources)
            if not (run.path / REPORT).exists():  # the run was stopped just before it
                _write_reports(run, summary)
            return summary
        task = _task(read_config(run, **resources))
        if differences := run.differences(task.read):
            if not force:
                raise RunError(
                    f"{path} must be resumed with the same versions and inputs, but these differ: "
                    f"{'; '.join(differences)}; "
                    f"`{rerun_command_line('resume', path, '--force')}` continues it"
                )
            run.record_differences(differences)
        with task.pool:
            return finish(task, run, progress)


def finish(task: CommandTask[Any, Any], run: Run, progress: Progress = silent) -> Summary:
    """Do a task in a run, from where it is; write the summary and the page."""
    progress("run", 0, 0, str(run.path))
    with single_torch_thread():
        found: Summary = task.work(run, progress)
    shortfalls = (*unmet(task.counts), *found.shortfalls)
    summary = found.model_copy(update={"run": str(run.path), "shortfalls": shortfalls})
    run.write_summary(summary.model_dump(mode="json", exclude={"run"}))
    _write_reports(run, summary)
    return summary


def _write_reports(run: Run, summary: Summary) -> None:
    """Write the tables of a ranking, and the page of any run, which comes last."""
    if isinstance(summary, RankSummary):
        write_text(run.path / "table.csv", as_csv(summary.rows))
        write_text(run.path / "table.md", as_markdown(summary))
    if isinstance(summary, CurveSummary):
        write_text(run.path / "curve.svg", curve_figure([(summary.title, summary)]))
    write_page(run.path)


def read_config(run: Run, trusted: bool = False, **resources: Any) -> TaskConfig:
    """Return the configuration that a run records, with the given resources replaced.

    Functions that it would call must be named again, unless the run is trusted: a run is data.
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
                f"`{rerun_command_line('resume', run.path, f'--{name}', str(function))}`"
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


def _checked(config: TaskConfig) -> CommandTask[Any, Any]:
    """Return the task after checking that its run's folder can be made."""
    require_folder("the folder of runs", Path(config.runs))
    task = _task(config)
    require_name(task.name if config.name is None else config.name)
    return task


def _task(config: TaskConfig) -> CommandTask[Any, Any]:
    if cache := getattr(config, "cache", None):
        require_folder("the cache", Path(cache))
    return task_class_for_kind(config.kind)(config)


def _estimate(task: CommandTask[Any, Any]) -> TimeEstimate | None:
    """Return the task's estimate; None if a network fails, which the run itself will report."""
    try:
        return task.estimate()
    except FAILURES:
        return None


def _other_spaces(given: BenchmarkOptions, filled: BenchmarkOptions) -> str:
    """Name the other spaces of a benchmark that have the datasets, if the user chose none."""
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
