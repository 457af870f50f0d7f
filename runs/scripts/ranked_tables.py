"""Rankings of the zoo on tables of networks, resumed if they were stopped, for other scripts.

Each ranking is a run of `autoprox rank` in a folder of its own, which is deleted when its figures
are in a small JSON file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autoprox.benchmarks import Benchmark, BenchmarkError, load_benchmark
from autoprox.commands.rank import RankSummary
from autoprox.configurations.commands import RankConfig
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.progress import Progress
from autoprox.runner import resume_run, start
from autoprox.runs.folder import LOG

WORK = Path(__file__).parents[2] / ".rankings"
DRAWN, LABELS = 200, 120  # networks of a large table, and those of them for training
SELECTION = ("space", "datasets", "label", "subset", "networks")


class Table(NamedTuple):
    """Networks with true scores: a title, the benchmark, and which part of it."""

    title: str
    benchmark: str
    space: str
    labels: str = "trained"  # or by a surrogate, or of inherited weights
    datasets: tuple[str, ...] | None = None
    label: str | None = None
    subset: str = "main"

    @property
    def name(self) -> str:
        """The name of its files."""
        parts = (self.space, *(self.datasets or ()), self.label or "", self.subset)
        return "-".join(part for part in parts if part not in ("", "main"))

    def options(self) -> dict[str, Any]:
        """Return the options of `autoprox rank` that choose it."""
        chosen = {"datasets": self.datasets, "label": self.label, "subset": self.subset}
        given = {name: own for name, own in chosen.items() if own not in (None, "main")}
        return {"benchmark": self.benchmark, "space": self.space, **given}

    def evolve_options(self) -> dict[str, Any]:
        """Return the options of `autoprox evolve`; of a large table, some networks are drawn."""
        large = len(self.load().architectures) >= DRAWN
        part = {"networks": DRAWN, "train": LABELS / DRAWN} if large else {}
        return {**self.options(), **part, "zoo": ("none",)}

    def load(self, networks: int | None = None) -> Benchmark:
        """Load it, or some of its networks."""
        options = {**self.options(), **({"networks": networks} if networks else {})}
        return load_benchmark(options.pop("benchmark"), **options)

    def absent(self) -> str | None:
        """Return why it can't be read here, if so."""
        try:
            self.load()
        except BenchmarkError as error:
            return str(error)
        return None


def installed_tables(tables: Sequence[Table], names: Sequence[str]) -> Iterator[Table]:
    """Yield the tables of these names, or all; say which can't be read here."""
    known = [table.name for table in tables]
    if unknown := sorted(set(names) - set(known)):
        raise SystemExit(f"unknown table {unknown[0]}; choose from {', '.join(known)}")
    for table in tables:
        if not names or table.name in names:
            if reason := table.absent():
                print(f"{table.name}: left out, {reason}", flush=True)
            else:
                yield table


def finished_ranking(
    name: str, options: Mapping[str, Any], workers: int, progress: Progress
) -> RankSummary:
    """Rank, or go on with a stopped ranking of the same name and options."""
    folder = WORK / name
    asked = {key: list(own) if isinstance(own, tuple) else own for key, own in options.items()}
    note = folder / "asked.json"
    if note.exists() and read_object(note) != asked:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(note, asked)
    if (begun := begun_run(folder)) is not None:
        summary = resume_run(begun, progress, "rank", workers=workers)
    else:
        summary = start(RankConfig(**options, runs=folder, workers=workers), progress)
    assert isinstance(summary, RankSummary)
    return summary


def begun_run(folder: Path) -> Path | None:
    """Return the last run in a folder; one that is still being created isn't a run."""
    return max((path.parent for path in folder.glob(f"[!.]*/{LOG}")), default=None)


def forget(name: str) -> None:
    """Delete the folder of a ranking whose figures are kept elsewhere."""
    shutil.rmtree(WORK / name)


def show_progress(stage: str, done: int, total: int, note: str) -> None:
    """Print every tenth of a ranking."""
    if total and done % max(total // 10, 1) == 0:
        print(f"  {stage}: {done} of {total} {note}", flush=True)


def figure(value: float | None) -> str:
    """Format a correlation with two decimals."""
    return "-" if value is None else f"{value:.2f}".replace("0.", ".", 1)


def bounds(values: Sequence[float | None]) -> str:
    """Format an interval."""
    low, high = values
    return f"[{figure(low)}, {figure(high)}]"
