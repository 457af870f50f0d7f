"""Runs to look at in Python: what functions return, and what `load_run` reads from a folder."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprox.errors import ConfigError, RunError, nearest
from autoprox.files.data_frames import to_frame
from autoprox.files.json_documents import JSONDocument

if TYPE_CHECKING:
    import pandas

    from autoprox.commands.build_benchmark import BuildSummary
    from autoprox.commands.compare import CompareSummary
    from autoprox.commands.curve import CurveSummary
    from autoprox.commands.evolve import EvolveSummary
    from autoprox.commands.prenas import PrenasSummary
    from autoprox.commands.rank import RankSummary
    from autoprox.commands.rediscover import RediscoverSummary
    from autoprox.commands.s3_space_search import S3Summary
    from autoprox.commands.search import SearchSummary
    from autoprox.commands.supernet import SupernetEvalSummary, SupernetTrainSummary
    from autoprox.language import Tree
    from autoprox.runs.folder import Run
    from autoprox.scoring.evaluation_set import DatasetMetrics

# Torch takes seconds to import: what needs it is imported when it is used.

STARTED = re.compile(r"(\d{8}T\d{6}Z)-")
ROW_PARTS = ("table", "log", "candidates", "evaluations")


class Overview(JSONDocument):
    """A run in one line: kind, benchmark or space, fitness and test tau; None if there is none."""

    run: str
    kind: str
    benchmark: str | None
    space: str | None
    seed: int | None
    fitness: float | None
    test: float | None
    expression: str | None
    seconds: float | None
    begun: str | None
    ended: bool


class Plot:
    """A drawing as SVG, which a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | PathLike[str]) -> None:
        """Write the drawing as an SVG file."""
        from autoprox.files.atomic_writes import write_text

        write_text(Path(path), self.svg)


class LoadedRun:
    """A run that has been read; if it is unfinished, its state at that time."""

    def __init__(self, path: str | PathLike[str]) -> None:
        from autoprox.commands.task_interface import read_run_summary
        from autoprox.runs.folder import Run

        self._run: Run = Run.open(Path(path))
        self.path = Path(path)
        self.kind = self._run.kind
        self.config = self._run.read_config()
        self.summary: Any = read_run_summary(self._run)  # None before the end

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self._run.name

    @property
    def command(self) -> str:
        """The command that made the run."""
        from autoprox.runs.folder import COMMANDS

        return COMMANDS.get(self.kind, self.kind)

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.summary is not None

    @property
    def seconds(self) -> float | None:
        """The time that the run took."""
        return getattr(self.summary, "seconds", None)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, the command, and digests of the files that were read."""
        return self._run.read_environment()

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return self._run.read_log()

    @cached_property
    def candidates(self) -> list[dict[str, Any]]:
        """The candidates of a search, in the order in which they were measured."""
        return self._run.read_lines("candidates") if self._run.has("candidates") else []

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as the JSON document that `--json` prints."""
        found: dict[str, Any] = self._ended().to_json()
        return found

    def table(self) -> list[dict[str, Any]]:
        """Return the main table of the summary."""
        return [self.to_dict()]

    def rows(self, part: str = "table") -> list[dict[str, Any]]:
        """Return the rows of the table, or the lines of the log, candidates or evaluations."""
        if part not in ROW_PARTS:
            raise ConfigError(f"unknown part of a run {part!r}{nearest(part, ROW_PARTS)}")
        return self.table() if part == "table" else self._run.read_lines(part)

    def to_frame(self, part: str = "table") -> pandas.DataFrame:
        """Return `rows` as a data frame; pandas must be installed."""
        return to_frame(self.rows(part))

    def overview(self) -> Overview:
        """Return the entry of this run in a list of runs."""
        from autoprox.runs.folder import as_written

        with as_written(self.path):
            begun = None
            if match := STARTED.match(self.name):
                time = datetime.strptime(match[1], "%Y%m%dT%H%M%SZ")
                begun = time.replace(tzinfo=timezone.utc).isoformat()
            fitness, test = self._figures()
            return Overview(
                run=str(self.path),
                kind=self.command,
                benchmark=self.config.get("benchmark") or self.config.get("space"),
                space=self.config.get("space"),
                seed=self.config.get("seed"),
                fitness=fitness,
                test=test,
                expression=getattr(self.summary, "expression", None),
                seconds=self.seconds,
                begun=begun,
                ended=self.finished,
            )

    def _figures(self) -> tuple[float | None, float | None]:
        """Return the fitness and the test tau, if the run has them."""
        return None, None

    def _ended(self) -> Any:
        if self.summary is None:
            raise RunError(f"{self.path}, a run of {self.command}, has no table, or none yet")
        return self.summary

    def __fspath__(self) -> str:
        """Return the run's folder, so that a run can be given wherever a path can."""
        return str(self.path)

    def shown(self) -> dict[str, str]:
        """Return the overview and the main results, by name."""
        values = self.overview().model_dump()
        return {n: _shown(v) for n, v in values.items() if v is not None} | self._results()

    def _results(self) -> dict[str, str]:
        """Return the main results, if the run has ended."""
        return {}

    def plot(self) -> Plot:
        """Return the plots of the run's page, which a notebook shows."""
        # By its name, because pages are made of runs.
        formats = import_module("autoprox.report.html.report_formats")
        return Plot(formats.plots_svg([self.path]))

    def __repr__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.shown().items()]
        return "\n".join([f"<{type(self).__name__} {self.path}>", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.shown().items()
        )
        return f"<table>{rows}</table>"

    def _repr_latex_(self) -> str | None:
        from autoprox.export import latex
        from autoprox.language import parse_expression

        text = getattr(self.summary, "expression", None)
        return f"${latex(parse_expression(text))}$" if text else None


class EvolveResult(LoadedRun):
    """The proxy that was found, and how well it ranks next to the baselines."""

    summary: EvolveSummary

    @property
    def expression(self) -> str:
        """The proxy's text."""
        return self.summary.expression

    @property
    def proxy(self) -> Tree:
        """The proxy."""
        from autoprox.language import parse_expression

        return parse_expression(self.expression)

    @property
    def test(self) -> dict[str, DatasetMetrics]:
        """The metrics on the test networks, by dataset."""
        return self._tables("test")

    @property
    def train(self) -> dict[str, DatasetMetrics]:
        """The metrics on the training networks, by dataset."""
        return self._tables("train")

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each part of the split, dataset, and proxy or baseline."""
        return [
            {"part": part, "dataset": dataset, "scored_by": name, **metrics.model_dump()}
            for part in ("test", "train")
            for name in self.summary.tables
            for dataset, metrics in self._tables(part, name).items()
        ]

    def _results(self) -> dict[str, str]:
        if not self.finished:
            return {}
        return {
            f"{space}: {name}": f"Kendall tau {_shown(means.test.kendall)} (test)"
            for fold in self.summary.folds
            for space, own in fold.spaces.items()
            for name, means in own.means.items()
        }

    def _tables(self, part: str, name: str = "proxy") -> dict[str, DatasetMetrics]:
        found: dict[str, DatasetMetrics] = self._ended().metrics(part, name)
        return found

    def _figures(self) -> tuple[float | None, float | None]:
        if not self.finished:
            return None, None
        chosen = [i for fold in self.summary.folds for i in fold.front if i.chosen]
        metric = "partial_tau" if self.summary.objective == "size-adjusted" else "jcm"
        tests = (
            own.means["proxy"].test.kendall
            for fold in self.summary.folds
            for own in fold.spaces.values()
        )
        return _mean(getattr(own, metric) for own in chosen), _mean(tests)


class RankResult(LoadedRun):
    """How well each proxy ranks."""

    summary: RankSummary

    def _results(self) -> dict[str, str]:
        if not self.finished:
            return {}
        means = {**self.summary.means, **self.summary.baseline_means}
        return {name: f"Kendall tau {_shown(own.kendall)}" for name, own in means.items()}

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each proxy and dataset, the best of a dataset first."""
        return [row.model_dump() for row in self._ended().rows]


class CompareResult(RankResult):
    """How well proxies rank the networks that none of them was evolved on."""

    summary: CompareSummary

    @property
    def between(self) -> dict[str, dict[str, float | None]]:
        """Kendall tau between the scores of each pair of proxies, means over the datasets."""
        return self.summary.between


class CurveResult(LoadedRun):
    """How well methods rank, by the number of labels."""

    summary: CurveSummary

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each method and number of labels."""
        return [row.model_dump() for row in self._ended().rows]


class SearchResult(LoadedRun):
    """The best architectures."""

    summary: SearchSummary

    @property
    def best(self) -> dict[str, Any]:
        """The best architecture: its choices, sizes and score."""
        return self.summary.best.model_dump()

    def _results(self) -> dict[str, str]:
        if not self.finished:
            return {}
        best, size = self.summary.best, self.summary.size
        return {
            "best architecture": str(best.arch),
            "parameters": str(best.params),
            "score": _shown(best.score),
            "Spearman of score and parameters": _shown(size.spearman),
            "score of the largest": _shown(size.largest.score),
        }

    @property
    def top(self) -> Sequence[dict[str, Any]]:
        """The best architectures, best first."""
        return [entry.model_dump() for entry in self.summary.top]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each of the best architectures, with a column for each choice."""
        return _with_choices(self._ended().top)


class RediscoverResult(LoadedRun):
    """The formula that was found, and the evidence that it is the proxy."""

    summary: RediscoverSummary

    @property
    def success(self) -> bool:
        """Whether the formula is the proxy that was to be rediscovered."""
        return self.summary.success

    @property
    def expression(self) -> str:
        """The formula; if the search failed, the one with the highest correlation."""
        return self.summary.expression


class BuildResult(LoadedRun):
    """The table that was built."""

    summary: BuildSummary

    @property
    def file(self) -> Path:
        """The table's file."""
        return Path(self.summary.file)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each dataset: the range of the scores, and their reliability."""
        found = self._ended().datasets
        return [{"dataset": name, **row.model_dump()} for name, row in found.items()]


class SupernetResult(LoadedRun):
    """The supernet that was trained."""

    summary: SupernetTrainSummary

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return Path(self.summary.weights)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each subnet that was evaluated, with a column for each choice."""
        return _with_choices(self._ended().subnets)


class SupernetTableResult(LoadedRun):
    """The table of inherited accuracies."""

    summary: SupernetEvalSummary

    @property
    def file(self) -> Path:
        """The table's file."""
        return Path(self.summary.file)


class PrenasResult(LoadedRun):
    """The preferred architectures."""

    summary: PrenasSummary

    @property
    def preferred(self) -> Sequence[dict[str, Any]]:
        """Each preferred architecture: its choices, sizes and scores."""
        return [entry.model_dump() for entry in self.summary.preferred]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each architecture, with a column for each choice."""
        return _with_choices(self._ended().preferred)


class S3Result(LoadedRun):
    """The spaces of all rounds, and the best network of the last."""

    summary: S3Summary

    @property
    def best(self) -> dict[str, Any]:
        """The best network: its choices, sizes and accuracy with inherited weights."""
        return self.summary.best.model_dump()

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each space: its errors."""
        return [row.model_dump(exclude={"options", "dropped"}) for row in self._ended().rounds]


RESULTS: dict[str, type[LoadedRun]] = {
    "evolve": EvolveResult,
    "rank": RankResult,
    "compare": CompareResult,
    "curve": CurveResult,
    "search": SearchResult,
    "rediscover": RediscoverResult,
    "build": BuildResult,
    "supernet-train": SupernetResult,
    "supernet-eval": SupernetTableResult,
    "prenas": PrenasResult,
    "s3": S3Result,
}


def load_run(path: str | PathLike[str]) -> LoadedRun:
    """Read the run in a folder.

    path: Folder of the run.
    """
    from autoprox.runs.folder import Run

    return RESULTS.get(Run.open(Path(path)).kind, LoadedRun)(path)


def runs_below(folder: Path) -> list[Overview]:
    """Return the overviews of the runs in a folder, the newest first."""
    from autoprox.runs.folder import CONFIG

    if not folder.is_dir():
        raise RunError(f"runs must be in a folder, but there is no folder {folder}")
    paths = {file.parent for file in folder.glob(f"*/{CONFIG}")}
    found = [load_run(path).overview() for path in sorted(paths)]
    return sorted(found, key=lambda row: row.begun or "", reverse=True)


def _with_choices(entries: Iterable[Any]) -> list[dict[str, Any]]:
    return [{**entry.arch, **entry.model_dump(exclude={"arch"})} for entry in entries]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
