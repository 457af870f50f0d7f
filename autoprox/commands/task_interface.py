"""The interface of every command: what it checks, reads and does."""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import TaskConfig
from autoprox.errors import RunError
from autoprox.evaluation.configured_inputs import configured_worker_pool
from autoprox.evaluation.time_estimate import TimeEstimate
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.runs.summary import Summary
from autoprox.shortfalls import Shortfall

C = TypeVar("C", bound=TaskConfig)
S = TypeVar("S", bound=Summary)


class CommandTask(ABC, Generic[C, S]):
    """The work that a configuration asks for.

    The constructor checks and reads everything, and measures nothing. `config` is the configuration
    with its open options filled in, as the run records it.
    """

    summary: ClassVar[type[Summary]]  # the type that `work` returns

    def __init__(self, config: C) -> None:
        self.config = config
        self.pool = configured_worker_pool(config)

    @property
    @abstractmethod
    def name(self) -> str:
        """The end of the name of the run's folder, unless the user gives one."""

    @property
    def read(self) -> dict[str, str]:
        """A digest of each thing that was read: a resumed run must read the same."""
        return {}

    @property
    def chosen(self) -> dict[str, str]:
        """What was chosen for options that the user left open and should know of."""
        return {}

    @property
    def counts(self) -> list[Shortfall]:
        """Counts that were asked for and that exist, as far as they are known before the work."""
        return []

    def estimate(self) -> TimeEstimate | None:
        """Estimate what the work takes, if possible; one network is measured for it."""
        return None

    @abstractmethod
    def work(self, run: Run, progress: Progress) -> S:
        """Do the work, from the beginning or from where the run stopped."""


def task_class_for_kind(kind: str) -> type[CommandTask[Any, Any]]:
    """Return the task of a kind of run."""
    if kind not in CONFIGURATIONS:
        raise RunError(f"the kind of a run must be one of {', '.join(CONFIGURATIONS)}, not {kind}")
    module, _, name = CONFIGURATIONS[kind].task.partition(":")
    found: type[CommandTask[Any, Any]] = getattr(import_module(module), name)
    return found


def read_run_summary(run: Run) -> Summary | None:
    """Read what a run found; None before its end."""
    if (stored := run.read_summary()) is None:
        return None
    with as_written(run.path):
        return task_class_for_kind(run.kind).summary.model_validate(
            {**stored, "run": str(run.path)}, strict=False
        )
