"""The command curve: how well methods rank a benchmark's networks, by the number of labels."""

import time
from collections.abc import Sequence
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import Field

from autoprox.commands.evolve import compared_proxies
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import CurveConfig, EvolveConfig
from autoprox.configurations.shared_options import WEIGHTS, require_choice
from autoprox.errors import ConfigError, MeasurementError, RunError
from autoprox.evaluation.label_curves import (
    METHODS,
    WITH_PRIOR,
    CurveTable,
    Taus,
    draw_taus,
)
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evaluation.term_scores import measured_terms, random_terms
from autoprox.evolution.prior_fit import LEAST_LABELS
from autoprox.evolution.prior_knowledge import prior_for
from autoprox.files.json_documents import JSONDocument
from autoprox.language.grammar import Grammar
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.runs.summary import Summary
from autoprox.scoring.bootstrap import Interval, Number, finite_or_none
from autoprox.scoring.correlations import TIES, Floats
from autoprox.shortfalls import Shortfall
from autoprox.statistics.collector import resolve_device

LEAST_TEST = 10  # networks without a label
LEVEL = (2.5, 97.5)


class CurveLogLine(JSONDocument):
    """The taus of one draw of labels: by their number and by method, None without one."""

    draw: int
    taus: dict[str, dict[str, Number]]


class CurveRow(JSONDocument):
    """A method with a number of labels: the mean tau on the other networks, over the draws."""

    method: str
    labels: int
    tau: Number
    interval: Annotated[Interval, Field(description="The range of 95 % of the draws.")]
    behind: Annotated[
        Number,
        Field(description="The prior's power law less this method, mean over the draws."),
    ] = None
    behind_interval: Interval = (None, None)


class CurveSummary(Summary):
    """The summary of `autoprox curve`."""

    benchmark: str
    space: str
    datasets: tuple[str, ...]
    networks: int
    draws: int
    terms: Annotated[int, Field(description="Random terms that are usable as factors.")]
    prior: Annotated[str, Field(description="The power law of other tables.")]
    prior_tables: tuple[str, ...]
    rows: tuple[CurveRow, ...]
    seconds: float

    @property
    def title(self) -> str:
        """The benchmark and the space."""
        return f"{self.benchmark}: {self.space}"


class CurveTask(CommandTask[CurveConfig, CurveSummary]):
    """Curves of the methods' taus over the number of labels."""

    summary = CurveSummary

    def __init__(self, config: CurveConfig) -> None:
        require_choice("ties", config.ties, TIES)
        require_choice("weights", config.weights, WEIGHTS)
        self.counts_of_labels = _counts(config.labels)
        names = compared_proxies(config.zoo)
        options = {name: getattr(config, name) for name in _shared_options()}
        device = resolve_device(config.device)
        self.problem = SpaceProblem(EvolveConfig(**{**options, "zoo": names, "device": device}))
        networks = len(self.problem.benchmark.architectures)
        if self.counts_of_labels[-1] > networks - LEAST_TEST:
            raise ConfigError(
                f"labels must leave {LEAST_TEST} of the {networks} networks for the test, but are "
                f"{self.counts_of_labels[-1]}"
            )
        known = self.problem.config
        filled = {
            name: getattr(known, name)
            for name in ("benchmark", "space", "datasets", "label", "device", "zoo")
        }
        super().__init__(
            config.model_copy(update={**filled, "labels": tuple(self.counts_of_labels)})
        )

    @property
    def name(self) -> str:
        return f"curve-{self.problem.benchmark.name}-{self.problem.space.name}"

    @property
    def read(self) -> dict[str, str]:
        return self.problem.read

    @property
    def counts(self) -> list[Shortfall]:
        return self.problem.counts

    def work(self, run: Run, progress: Progress) -> CurveSummary:
        """Measure terms and published proxies once; fit all methods to each draw of labels."""
        started, config = time.monotonic(), self.config
        lines = run.read_log_as(CurveLogLine)
        with as_written(run.path, "a log"):
            if [line.draw for line in lines] != list(range(len(lines))):
                raise RunError(f"the log of {run.path} must have each draw once, in order")
            if any(list(line.taus) != list(map(str, self.counts_of_labels)) for line in lines):
                raise RunError(f"the log of {run.path} must have all numbers of labels")
        benchmark = self.problem.benchmark
        prior = prior_for(benchmark.name, benchmark.space)
        grammar = Grammar(structure=True, combinators=False, limits=self.problem.config)
        terms = random_terms(grammar, config.population, config.seed)
        measured = measured_terms(self.problem, terms, list(prior.exponents), progress)
        if not np.isfinite(measured.fixed).all():
            raise MeasurementError(
                "the prior must have a score on all networks, but has none on some"
            )
        zoo = self.problem.zoo_scores(progress)
        table = CurveTable.of(
            benchmark,
            measured,
            list(prior.exponents.values()),
            zoo.scores,
            correlation=prior.correlation,
            ties=config.ties,
            size=self.problem.config.terms,
        )
        for draw in range(len(lines), config.draws):
            progress("draws", draw, config.draws, "")
            taus = draw_taus(table, self.counts_of_labels, draw, config.seed)
            line = CurveLogLine(draw=draw, taus={str(n): _finite(own) for n, own in taus.items()})
            run.log(line.model_dump(mode="json"))
            lines.append(line)
        progress("draws", config.draws, config.draws, "")
        return CurveSummary(
            benchmark=benchmark.name,
            space=benchmark.space,
            datasets=tuple(benchmark.datasets),
            networks=table.networks,
            draws=config.draws,
            terms=len(measured.terms),
            prior=str(prior.tree),
            prior_tables=tuple(map(str, prior.tables)),
            rows=tuple(curve_rows(lines)),
            seconds=round(time.monotonic() - started, 3),
        )


def curve_rows(lines: Sequence[CurveLogLine]) -> list[CurveRow]:
    """Return a row for each method and number of labels."""
    rows = []
    for method, count in product(METHODS, lines[0].taus):
        if not any(method in line.taus[count] for line in lines):
            continue
        own, ours = (
            np.array([line.taus[count].get(name) for line in lines], dtype=float)
            for name in (method, WITH_PRIOR)
        )
        tau, interval = _mean_and_range(own)
        row = CurveRow(method=method, labels=int(count), tau=tau, interval=interval)
        if method != WITH_PRIOR:
            difference, bounds = _mean_and_range(ours - own)
            row = row.model_copy(update={"behind": difference, "behind_interval": bounds})
        rows.append(row)
    return rows


def _mean_and_range(values: Floats) -> tuple[Number, Interval]:
    low, high = np.percentile(values, LEVEL)
    return finite_or_none(values.mean()), (finite_or_none(low), finite_or_none(high))


def _finite(taus: Taus) -> dict[str, Number]:
    return {name: finite_or_none(tau) for name, tau in taus.items()}


def _counts(labels: Sequence[float]) -> list[int]:
    counts = sorted(set(labels))
    for own in counts:
        if own != int(own) or not (own == 0 or own >= LEAST_LABELS):
            rule = f"labels must be 0 or at least {LEAST_LABELS}, in whole numbers"
            raise ConfigError(f"{rule}, but got {own:g}")
    if not counts:
        raise ConfigError("labels must be at least one number")
    return [int(own) for own in counts]


def _shared_options() -> list[str]:
    """Return the options that an evolution has too, apart from those with another meaning."""
    own = {"labels", "draws", "terms", "zoo", "device", "progress", "runs", "name"}
    return [
        name
        for name in CurveConfig.model_fields
        if name in EvolveConfig.model_fields and name not in own
    ]
