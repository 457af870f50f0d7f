"""What every task is."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from autoprox.configurations.shared_options import (
    TaskConfig,
)
from autoprox.evaluation.configured_inputs import crew_of
from autoprox.evaluation.time_estimate import Estimate
from autoprox.progress import Progress
from autoprox.runs.folder import Run
from autoprox.shortfalls import Shortfall

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
