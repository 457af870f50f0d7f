"""The errors of subnets with inherited weights, kept in a file as they are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from autoprox.files.json_documents import Excerpt
from autoprox.files.json_lines import JSONLines
from autoprox.inputs.datasets import Images
from autoprox.oneshot.supernet.inherited import inherited_accuracies
from autoprox.oneshot.supernet.slices import Supernet
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.progress import Progress, silent
from autoprox.searchspaces import Architecture


class Evaluation(Excerpt):
    """A subnet of the file."""

    arch: dict[str, Any]
    accuracy: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


@dataclass(frozen=True)
class Evaluations:
    """Evaluates the subnets of a supernet, those in the file without another pass."""

    supernet: Supernet
    data: Images
    file: Path
    limit: int | None = None  # of held-out images
    crew: WorkerPool = SINGLE_WORKER
    task: str = "evaluate"
    total: int = 0  # that will be asked for
    progress: Progress = silent

    def errors(self, architectures: Sequence[Architecture]) -> list[float]:
        """The percentage of held-out images that each subnet gets wrong."""
        lines, known = JSONLines(self.file), self._known()
        lines.truncate(len(lines.lines()))
        places = {number: known[a] for number, a in enumerate(architectures) if a in known}

        def record(number: int, accuracy: float) -> None:
            arch = architectures[number]
            known[arch] = accuracy
            lines.append({"arch": arch.to_json()["choices"], "accuracy": accuracy})
            self.progress(self.task, len(known), self.total, f"accuracy {accuracy:.2f}")

        accuracies = inherited_accuracies(
            self.supernet,
            self.data,
            architectures,
            limit=self.limit,
            pool=self.crew,
            known=places,
            record=record,
        )
        return [100 - accuracy for accuracy in accuracies]

    def _known(self) -> dict[Architecture, float]:
        architecture = self.supernet.space.architecture
        lines = JSONLines(self.file).read_as(Evaluation)
        return {architecture(line.arch): line.accuracy for line in lines}
