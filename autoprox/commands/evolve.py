"""The command evolve: one formula for one or more spaces, and how well it ranks unseen networks."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

import numpy as np
from deap import base
from pydantic import Field

from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.configurations.shared_options import FRESH, WEIGHTS, absolute, require_choice
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import ConfigError, nearest
from autoprox.evaluation.evolution_time_estimate import EvolutionEstimate
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator, MeasuredNetworks
from autoprox.evaluation.full_resolution_choice import RankingQuality, choose_at_full_resolution
from autoprox.evaluation.power_law_choice import refit_at_full_resolution
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, reseeded_indices
from autoprox.evaluation.proxy_measurement import (
    SIZE_PROXIES,
    MeasuredProxies,
    requested_proxy_names,
)
from autoprox.evaluation.space_problem import SpaceProblem, space_problems
from autoprox.evaluation.successive_halving import STOPPED, SuccessiveHalving, halving_parts
from autoprox.evaluation.time_estimate import TimeEstimate
from autoprox.evolution import (
    METRICS,
    STRATEGIES,
    EvolutionParameters,
    Individual,
    Representation,
    State,
    evolve,
    evolve_power_laws,
    make_toolbox,
    require_formula,
)
from autoprox.evolution.checkpoint import SavedState
from autoprox.evolution.power_law import FACTOR_NODES, factors_of
from autoprox.evolution.prior_fit import ENOUGH_LABELS, LEAST_LABELS
from autoprox.evolution.prior_knowledge import Prior, prior_for, ready_made_proxy
from autoprox.evolution.two_inputs import TwoInputs
from autoprox.evolution_parameters import MAX_DEPTH, MAX_SIZE
from autoprox.export import pretty_formula
from autoprox.files.json_documents import JSONDocument
from autoprox.language import (
    EVERY_STATISTIC,
    STATISTICS,
    Statistic,
    Tree,
    parse_expression,
    statistics,
    tree_digest,
)
from autoprox.language.grammar import Grammar
from autoprox.progress import Note, Progress
from autoprox.runs.folder import Run, as_written
from autoprox.runs.proxy_file import Found, ProxyRecord, Taus
from autoprox.runs.summary import Summary
from autoprox.scoring.bootstrap import Number, finite_or_none
from autoprox.scoring.correlations import TIES, jcm
from autoprox.scoring.evaluation_set import MetricsTable
from autoprox.shortfalls import Shortfall
from autoprox.statistics.collector import resolve_device
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.zoo.predictor import Predictor

REPRESENTATIONS: Mapping[str, Callable[[Grammar], Representation]] = {
    "free": lambda grammar: grammar,
    "two-inputs": TwoInputs,
}
FORMS = ("power-law", "tree")
EACH = "each"
Sources = Mapping[str, Sequence[CachedMatrices]]  # by space, one for each part of the halving


class PowerLawFactor(JSONDocument):
    """A factor of a power law: a term to the power of an exponent."""

    expression: str
    exponent: float
    spread: Annotated[
        Number,
        Field(
            description="The standard deviation of the term's logarithm on the training networks, "
            "within each space and dataset; times the exponent it is the factor's share in the "
            "logarithm of the score."
        ),
    ]

    @property
    def share(self) -> Number:
        """Its share in the logarithm of the score: exponent x spread."""
        return None if self.spread is None else self.exponent * self.spread


class FrontFormula(JSONDocument):
    """A formula of the Pareto front."""

    expression: str
    size: int
    jcm: float
    partial_tau: float
    taus: Annotated[
        dict[str, float] | None,
        Field(description="On subsampled matrices of the training networks, if recorded."),
    ] = None
    chosen: bool


class RequestedAndDone(JSONDocument):
    """A number that was asked for, None without a limit, and what was done of it."""

    asked: int | None
    done: int


class EvolutionCounts(JSONDocument):
    """The budgets of an evolution and what was done; of islands, the one that did least."""

    iterations: RequestedAndDone
    evaluations: Annotated[RequestedAndDone, Field(description="Of all islands together.")]
    population: RequestedAndDone


class Island(JSONDocument):
    """One of the populations of an evolution."""

    iterations: int
    evaluations: int


class EvolutionFold(JSONDocument):
    """An evolution on some of the spaces, and how well its formula ranks on each space."""

    held_out: str | None
    trained: tuple[str, ...]
    expression: str
    formula: str
    factors: Annotated[
        tuple[PowerLawFactor, ...],
        Field(description="Of a power law, the one with the largest share first."),
    ] = ()
    front: tuple[FrontFormula, ...]
    committee: Annotated[
        str | None,
        Field(description="The mean of power laws chosen on random parts of the networks."),
    ] = None
    evaluations: int
    counts: EvolutionCounts
    ended: Annotated[
        str | None, Field(description="How the budget ended the evolution, if it did.")
    ]
    islands: tuple[Island, ...]
    stopped: Annotated[int, Field(description="Formulas that successive halving stopped early.")]
    invalid: dict[str, int]
    spaces: dict[str, RankingQuality]


class SpaceSource(JSONDocument):
    """The sources of a space's true scores and inputs."""

    benchmark: str
    space: str | None = None
    inputs: dict[str, str]
    lacking: Annotated[
        tuple[str, ...], Field(description="Requested datasets that the space doesn't have.")
    ]


class EvolveSummary(Summary):
    """The summary of `autoprox evolve`."""

    expression: str
    formula: str
    folds: tuple[EvolutionFold, ...]
    hold_out: str | None
    objective: str
    ties: str
    weights: str = FRESH
    prior: Annotated[
        tuple[str, ...],
        Field(description="The tables whose power law the committee is shrunk towards."),
    ] = ()
    spaces: dict[str, SpaceSource]
    seconds: float

    @property
    def tables(self) -> dict[str, None]:
        """The names of the proxy and of everything it is compared with on some space."""
        every = (own for fold in self.folds for own in fold.spaces.values())
        return {name: None for own in every for name in own.tables}

    def metrics(self, part: str, name: str = "proxy") -> MetricsTable:
        """Return the metrics of a proxy or baseline on one part of the split, by dataset.

        With several spaces they are those of `space/dataset`. All networks of a held-out space are
        in the test part.
        """
        return {
            dataset if len(self.spaces) == 1 else f"{space}/{dataset}": row
            for fold in self.folds
            for space, own in fold.spaces.items()
            if name in own.tables and (part == "test" or space != fold.held_out)
            for dataset, row in getattr(own.tables[name], part).items()
        }


class EvolveCheckpoint(JSONDocument):
    """The folds that are finished, and the islands of the one that is not."""

    folds: tuple[EvolutionFold, ...] = ()
    islands: tuple[SavedState, ...] = ()
    lines: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0


@dataclass(frozen=True)
class FoldPlan:
    """The spaces that an evolution is for, and those that its formula is measured on."""

    held_out: str | None
    trained: tuple[str, ...]
    measured: tuple[str, ...]


class EvolveTask(CommandTask[EvolveConfig, EvolveSummary]):
    """The discovery of a proxy on the training networks of one or more spaces."""

    summary = EvolveSummary

    def __init__(self, config: EvolveConfig) -> None:
        strategy = STRATEGIES.find(config.strategy)
        self.parameters = strategy.configured(config.strategy, config, config.set or {})
        self.strategy = strategy
        require_choice("form", config.form, FORMS)
        require_choice("ties", config.ties, TIES)
        require_choice("objective", config.objective, METRICS)
        require_choice("weights", config.weights, WEIGHTS)
        require_choice("representation", config.representation, REPRESENTATIONS)
        if config.evaluations is not None and config.evaluations < config.islands:
            rule = f"evaluations must be at least one for each of {config.islands} islands"
            raise ConfigError(f"{rule}, but are {config.evaluations}")
        filled = config.model_copy(
            update={
                "statistics": tuple(config.statistics or STATISTICS),
                "zoo": compared_proxies(config.zoo),
                "device": resolve_device(config.device),
                "set": self.parameters.model_dump(mode="json", include=set(strategy.own)) or None,
            }
        )
        self.problems = space_problems(filled)
        held_out = self._held_out(config)
        if config.spaces is None:
            (problem,) = self.problems.values()
            filled = problem.config
        else:
            tables = (absolute(e) if e.endswith(".json") else e for e in config.spaces)
            filled = filled.model_copy(update={"spaces": tuple(tables), "hold_out": held_out})
        several = len(self.problems) > 1 and config.form == "tree"
        halving = several if config.halving is None else config.halving
        if config.form != "tree":
            whole = {
                "--halving": halving,
                f"--strategy {config.strategy}": strategy.retries,
                "--tolerance": config.tolerance is not None,
            }
            if option := next((name for name, given in whole.items() if given), None):
                raise ConfigError(f"{option} compares whole formulas: it needs --form tree")
            _require_room_for_terms(config)
            _require_labels(self.problems)
        super().__init__(filled.model_copy(update={"halving": halving}))
        self.grammar = Grammar(
            self.config.statistics or (),
            structure=config.structure,
            combinators=config.form == "tree",  # a power law combines terms itself
            limits=self.config,
        )
        self.prior = self._chosen_prior()
        self.config = self.config.model_copy(update={"prior": self.prior is not None})
        self.representation = REPRESENTATIONS[config.representation](self.grammar)
        self.folds = self._plan_folds()
        self.parts = {
            name: halving_parts(problem.parts["train"], name)
            if halving
            else [problem.parts["train"]]
            for name, problem in self.problems.items()
        }

    def _chosen_prior(self) -> Prior | None:
        """Return the prior of an evolution on one space, unless there are labels enough.

        A prior that reads more than the evolution may read is taken only if it is asked for, which
        is an error.
        """
        asked = self.config.prior
        if self.config.form == "tree" or len(self.problems) > 1:
            if asked:
                raise ConfigError("--prior needs --form power-law and a single space")
            return None
        (problem,) = self.problems.values()
        if asked is False or (asked is None and len(problem.parts["train"]) >= ENOUGH_LABELS):
            return None
        prior = prior_for(problem.benchmark.name, problem.space.name)
        read = {part for own in statistics(prior.tree) for part in own.parts}
        if self.config.structure and read <= self.needs():
            return prior
        if asked:
            missing = ", ".join(sorted(map(str, read - self.needs()))) or "--structure"
            raise ConfigError(f"--prior reads more than formulas may read: {missing}")
        return None

    def _held_out(self, config: EvolveConfig) -> str | None:
        """Return the name of the problem that is held out, or `each`."""
        names = dict(zip(config.spaces or self.problems, self.problems, strict=True))
        held_out = names.get(str(config.hold_out), config.hold_out)
        if held_out is not None and held_out not in (*self.problems, EACH):
            known = nearest(held_out, [*self.problems, EACH])
            raise ConfigError(f"the hold-out must be one of the spaces, but is {held_out!r}{known}")
        if held_out is not None and len(self.problems) < 2:
            raise ConfigError(f"{held_out} can't be held out, for there is no other space")
        return held_out

    def _plan_folds(self) -> list[FoldPlan]:
        names, held_out = tuple(self.problems), self.config.hold_out
        jcm(np.zeros(len(self.pairs(names))), self.config.dataset_weights)
        if held_out is None:
            return [FoldPlan(None, names, names)]
        each = held_out == EACH
        plans = [
            FoldPlan(own, tuple(n for n in names if n != own), (own,) if each else names)
            for own in (names if each else (held_out,))
        ]
        for plan in plans:
            jcm(np.zeros(len(self.pairs(plan.trained))), self._dataset_weights(plan))
        return plans

    def pairs(self, names: Sequence[str]) -> list[str]:
        """Return the names of all pairs of these spaces and their datasets."""
        datasets = {name: self.problems[name].benchmark.datasets for name in names}
        return [self._pair(name, dataset) for name in names for dataset in datasets[name]]

    def _pair(self, name: str, dataset: str) -> str:
        return dataset if self.config.spaces is None else f"{name}/{dataset}"

    def _dataset_weights(self, plan: FoldPlan) -> tuple[float, ...] | None:
        """Return the weights of the pairs that a fold evolves on."""
        if self.config.dataset_weights is None:
            return None
        weights = zip(self.pairs(tuple(self.problems)), self.config.dataset_weights, strict=True)
        known = dict(weights)
        return tuple(known[pair] for pair in self.pairs(plan.trained))

    @property
    def name(self) -> str:
        seed = f"seed{self.config.seed}"
        if self.config.spaces is not None:
            return f"{len(self.problems)}-spaces-{seed}"
        (problem,) = self.problems.values()
        return f"{problem.benchmark.name}-{problem.space.name}-{seed}"

    @property
    def read(self) -> dict[str, str]:
        prefix = "" if self.config.spaces is None else "{} "
        return {
            f"{prefix.format(name)}{key}": value
            for name, problem in self.problems.items()
            for key, value in problem.read.items()
        }

    @property
    def counts(self) -> list[Shortfall]:
        return [own for problem in self.problems.values() for own in problem.counts]

    def estimate(self) -> TimeEstimate | None:
        """Estimate all stages of an evolution on one space from a few networks."""
        if len(self.problems) > 1 or self.config.halving or self.config.islands > 1:
            return None
        (problem,) = self.problems.values()
        return EvolutionEstimate(problem, self.grammar, self.needs(), self.pool.size).total()

    def needs(self) -> set[Statistic]:
        """Return the statistics, by single domains, that trees of the grammar can read."""
        terminals = [name for name in self.grammar.terminals if name in EVERY_STATISTIC]
        read = {s for name in terminals for s in statistics(parse_expression(name))}
        return {part for s in read for part in s.parts}

    def work(self, run: Run, progress: Progress) -> EvolveSummary:
        """Evolve for each fold on subsampled matrices; choose and measure at full resolution."""
        record = EvolutionRecorder(run, self)
        left = self.folds[len(record.folds) :]
        sources = self._collect(dict.fromkeys(n for plan in left for n in plan.trained), progress)
        reseeded = self._collect_reseeded(sources, progress)
        for plan in left:
            config = self._config_of(plan)
            evaluators = self.evaluators(plan, sources)
            measured = PowerLawEvaluator(
                config,
                evaluators[-1].networks,
                [reseeded[name] for name in plan.trained if reseeded],
                self.prior,
            )
            islands = self._evolve(plan, self._toolbox(evaluators, measured), record, progress)
            front: Sequence[Individual] = _merged_front(islands)
            found = evaluators[-1].choose(front)
            progress("measure", 0, 1, str(found.tree))
            networks = {
                name: self.problems[name].full_resolution(
                    self._failures(name, sources) if name in plan.trained else {},
                    held_out=name == plan.held_out,
                    with_zoo=name in plan.measured,
                    progress=progress,
                )
                for name in (*plan.trained, *plan.measured)
            }
            trained = [networks[name] for name in plan.trained]
            committee: Tree | None = None
            spreads: Mapping[Tree, float] = {}
            if self.config.form == "tree":
                tree = choose_at_full_resolution(trained, config, found, front, progress)
            else:
                archives = [measured.archive(island) for island in islands]
                tree, front, committee, spreads = refit_at_full_resolution(
                    measured, trained, config, front, archives, self.prior
                )
            predictor = None
            if len(self.problems) == 1:
                feature = self.prior.tree if self.prior else committee or tree
                [of_space] = trained
                file = of_space.predictor(feature, self._found(run, plan.trained))
                run.write_predictor(file)
                predictor = Predictor(file)
            quality = {
                name: networks[name].ranking_quality(
                    tree, self.problems[name].zoo_scores(progress), committee, predictor
                )
                for name in plan.measured
            }
            progress("measure", 1, 1, str(tree))
            pairs = self.pairs(plan.trained)
            factors = _factors(tree, spreads)
            fold = _fold(plan, config, pairs, islands, front, tree, factors, committee, quality)
            record.finish(fold)
        first = record.folds[0]
        voting = self._proxy_record(run, first, first.committee, {}) if first.committee else None
        run.write_proxies(self.proxy_records(run, record.folds), voting)
        return EvolveSummary(
            expression=record.folds[0].expression,
            formula=record.folds[0].formula,
            folds=tuple(record.folds),
            hold_out=self.config.hold_out,
            objective=self.config.objective,
            ties=self.config.ties,
            weights=self.config.weights,
            prior=tuple(map(str, self.prior.tables)) if self.prior else (),
            spaces={name: self._source(problem) for name, problem in self.problems.items()},
            seconds=record.seconds,
        )

    def _collect(self, names: Mapping[str, None], progress: Progress) -> Sources:
        """Measure the subsampled statistics of the training networks of some spaces."""
        needs = self.needs()
        return {
            name: [
                self.problems[name].collect(
                    needs,
                    part,
                    self.config.memory // (len(names) * len(self.parts[name])),
                    progress,
                )
                for part in self.parts[name]
            ]
            for name in names
        }

    def _collect_reseeded(
        self, names: Iterable[str], progress: Progress
    ) -> dict[str, MeasuredNetworks]:
        """Measure a few training networks of some spaces again, with another seed."""
        if self.config.form == "tree":
            return {}
        needs, found = self.needs(), {}
        for name in names:
            problem, [part] = self.problems[name], self.parts[name]
            few = part[reseeded_indices(len(part), len(self.problems))]
            memory = self.config.memory // 4
            source = problem.collect(needs, few, memory, progress, seed=self.config.seed + 1)
            found[name] = problem.measured_networks([(TreeEvaluator(source), few)])
        return found

    def _config_of(self, plan: FoldPlan) -> EvolveConfig:
        """Return the configuration with the weights of a fold's datasets."""
        return self.config.model_copy(update={"dataset_weights": self._dataset_weights(plan)})

    def evaluators(self, plan: FoldPlan, sources: Sources) -> list[FitnessEvaluator]:
        """Return fitness evaluators on ever more of the fold's training networks."""
        config = self._config_of(plan)
        engines = {
            name: [
                (TreeEvaluator(s), part)
                for s, part in zip(sources[name], self.parts[name], strict=True)
            ]
            for name in plan.trained
        }
        return [
            FitnessEvaluator(
                config,
                [
                    self.problems[name].measured_networks(own[:count])
                    for name, own in engines.items()
                ],
            )
            for count in range(1, len(self.parts[plan.trained[0]]) + 1)
        ]

    def _toolbox(
        self, evaluators: Sequence[FitnessEvaluator], measured: PowerLawEvaluator
    ) -> base.Toolbox:
        """Return the toolbox of either form."""
        evaluate = SuccessiveHalving(evaluators).evaluate
        toolbox = make_toolbox(self.representation, evaluate, self.strategy, self.parameters)
        for name in ("archive", "measure", "parents", "combine"):
            toolbox.register(name, getattr(measured, name))
        return toolbox

    def _evolve(
        self,
        plan: FoldPlan,
        toolbox: base.Toolbox,
        record: "EvolutionRecorder",
        progress: Progress,
    ) -> list[State]:
        """Evolve all islands of a fold, from where they were stopped."""
        loop = evolve if self.config.form == "tree" else evolve_power_laws
        for island in range(self.config.islands):
            parameters = self.parameters.model_copy(update={"evaluations": self._share(island)})
            if island == len(record.islands):
                record.islands.append(State(self._rng(island)))
            state, title = record.islands[island], self._title(plan, island)
            if self.config.form != "tree":
                with as_written(record.path, "a checkpoint"):
                    toolbox.archive(state)

            def log(
                state: State,
                island: int = island,
                title: str = title,
                parameters: EvolutionParameters = parameters,
            ) -> None:
                record.log({"held_out": plan.held_out, "island": island, **state.logbook[-1]})
                progress(title, *state.progress(parameters), _note(state))

            progress(title, *state.progress(parameters), _note(state))
            loop(toolbox, self.strategy, parameters, state, log)
        require_formula(record.islands)
        return list(record.islands)

    def _rng(self, island: int) -> Random:
        alone = self.config.spaces is None and self.config.islands == 1
        return Random(self.config.seed if alone else f"{self.config.seed} island {island}")

    def _share(self, island: int) -> int | None:
        """Return how many evaluations an island may make; the first ones take the remainder."""
        if self.config.evaluations is None:
            return None
        share, rest = divmod(self.config.evaluations, self.config.islands)
        return share + (island < rest)

    def _title(self, plan: FoldPlan, island: int) -> str:
        islands = self.config.islands
        number = f" {island + 1}/{islands}" if islands > 1 else ""
        return f"evolve{number}{f' without {plan.held_out}' if plan.held_out else ''}"

    def _failures(self, name: str, sources: Sources) -> dict[int, str]:
        return {
            int(part[n]): reason
            for source, part in zip(sources[name], self.parts[name], strict=True)
            for n, reason in source.failures.items()
        }

    def _source(self, problem: SpaceProblem) -> SpaceSource:
        return SpaceSource(
            benchmark=problem.benchmark.source,
            space=problem.space.name,
            inputs={dataset: batch.source for dataset, batch in problem.batches.items()},
            lacking=tuple(d for d in self.config.datasets or () if d not in problem.batches),
        )

    def proxy_records(self, run: Run, folds: Sequence[EvolutionFold]) -> list[ProxyRecord]:
        """Return each fold's formula with its taus at full resolution, then the other formulas."""
        chosen = [
            self._proxy_record(run, fold, fold.expression, self._taus(fold)) for fold in folds
        ]
        seen = {tree_digest(parse_expression(fold.expression)) for fold in folds}
        others = [
            self._proxy_record(run, fold, own.expression, {"evolution": dict(own.taus or {})})
            for fold in folds
            for own in fold.front
            if tree_digest(parse_expression(own.expression)) not in seen
        ]
        return [*chosen, *others]

    def _proxy_record(
        self, run: Run, fold: EvolutionFold, expression: str, taus: Taus
    ) -> ProxyRecord:
        found = self._found(run, fold.trained)
        return ProxyRecord(expression, pretty_formula(parse_expression(expression)), found, taus)

    def _found(self, run: Run, trained: Sequence[str]) -> Found:
        """Return what a run's files record of the networks that it learnt from."""
        problems = [self.problems[name] for name in trained]
        return Found(
            run=run.name,
            space=", ".join(problem.space.name for problem in problems),
            benchmark=", ".join(dict.fromkeys(problem.benchmark.name for problem in problems)),
            label=", ".join(dict.fromkeys(problem.benchmark.label for problem in problems)),
            datasets=self.pairs(trained),
            seed=self.config.seed,
            weights=self.config.weights,
            evolved_on=[problem.split_record() for problem in problems],
        )

    def _taus(self, fold: EvolutionFold) -> Taus:
        """Return the formula's taus by part of the split and by pair."""
        return {
            part: {
                self._pair(name, dataset): row.kendall
                for name, own in fold.spaces.items()
                if part == "test" or name != fold.held_out
                for dataset, row in getattr(own, part).items()
            }
            for part in ("train", "test")
        }


class EvolutionRecorder:
    """The progress of an evolution, as the log and the checkpoint of its run keep it."""

    def __init__(self, run: Run, task: EvolveTask) -> None:
        self.path, self._run, self._started = run.path, run, time.monotonic()
        with as_written(self.path, "a checkpoint"):
            stored = run.read_checkpoint() or {}
            saved = EvolveCheckpoint.model_validate(stored, strict=False)
            self.folds = list(saved.folds)
            self._require_folds_of(task)
            task.proxy_records(run, self.folds)
            pairs = [len(task.pairs(plan.trained)) for plan in task.folds]
            self.islands = [
                island.restored(pairs[len(self.folds)], task.config.objective)
                for island in saved.islands
            ]
            self._lines, self._before = saved.lines, saved.seconds
            run.truncate_log(self._lines)

    def _require_folds_of(self, task: EvolveTask) -> None:
        if len(self.folds) > len(task.folds):
            raise ValueError(f"there are {len(task.folds)} folds")
        for plan, done in zip(task.folds, self.folds, strict=False):
            if (plan.held_out, plan.trained) != (done.held_out, done.trained):
                raise ValueError(f"{', '.join(done.trained)} aren't the spaces of the fold")

    @property
    def seconds(self) -> float:
        """The time that the evolution has taken, without interruptions."""
        return round(self._before + time.monotonic() - self._started, 3)

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the run's log, and write the checkpoint."""
        self._run.log({**line, "seconds": self.seconds})
        self._lines += 1
        self._write()

    def finish(self, fold: EvolutionFold) -> None:
        """Record a finished fold."""
        self.folds.append(fold)
        self.islands = []
        self._write()

    def _write(self) -> None:
        checkpoint = EvolveCheckpoint(
            folds=tuple(self.folds),
            islands=tuple(map(SavedState.of, self.islands)),
            lines=self._lines,
            seconds=self.seconds,
        )
        self._run.checkpoint(checkpoint.model_dump(mode="json"))


def _require_room_for_terms(config: EvolveConfig) -> None:
    """Raise ConfigError unless a power law of the largest terms is within the language's limits."""
    size = config.terms * (config.max_size + FACTOR_NODES) - 1
    depth = min(config.max_depth, config.max_size - 1) + 1 + (config.terms - 1).bit_length()
    if size > MAX_SIZE or depth > MAX_DEPTH:
        rule = f"a power law has at most {MAX_SIZE} nodes and depth {MAX_DEPTH}"
        found = f"{config.terms} terms of these sizes may have {size} and {depth}"
        raise ConfigError(f"{rule}, but {found}: lower --terms, --max-size or --max-depth")


def _require_labels(problems: Mapping[str, SpaceProblem]) -> None:
    """Raise ConfigError if a space has too few labels to fit anything to."""
    for name, problem in problems.items():
        if (count := len(problem.parts["train"])) < LEAST_LABELS:
            raise ConfigError(
                f"at least {LEAST_LABELS} networks must be for training, but are {count} of "
                f"{name}: with fewer, take the ready-made proxy {ready_made_proxy(problem.space)}"
            )


def compared_proxies(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the published proxies to compare with, all of which must exist."""
    names = () if tuple(given) == ("none",) else requested_proxy_names(given)
    return MeasuredProxies([name for name in names if name not in SIZE_PROXIES]).names


def _note(state: State) -> Note:
    """Describe the progress of an evolution: its best formula, and the evaluations."""
    counts: dict[str, Any] = {"tried": state.evaluations, "invalid": sum(state.invalid.values())}
    if not state.logbook:
        return Note(**counts)
    best, text = float(state.logbook[-1]["best"]), str(state.logbook[-1]["expression"])
    return Note(f"best {best:.4f}  {text}", value=best, of="fitness", formula=text, **counts)


def _merged_front(islands: Sequence[State]) -> list[Individual]:
    merged = State(Random(0))
    for island in islands:
        merged.front.update(list(island.front))
    return list(merged.front)


def _factors(tree: Tree, spreads: Mapping[Tree, float]) -> tuple[PowerLawFactor, ...]:
    """Return the factors of a power law, those with the largest share first; none of a tree."""
    found = [
        PowerLawFactor(
            expression=str(term),
            exponent=exponent,
            spread=finite_or_none(spreads.get(term, np.nan)),
        )
        for term, exponent in (factors_of(tree) or [] if spreads else [])
    ]
    return tuple(sorted(found, key=lambda factor: -abs(factor.share or 0.0)))


def _fold(
    plan: FoldPlan,
    parameters: EvolutionParameters,
    pairs: Sequence[str],
    islands: Sequence[State],
    front: Sequence[Individual],
    tree: Tree,
    factors: tuple[PowerLawFactor, ...],
    committee: Tree | None,
    quality: Mapping[str, RankingQuality],
) -> EvolutionFold:
    invalid = sum((island.invalid for island in islands), Counter[str]())
    iterations = min(island.iteration for island in islands)
    evaluations = sum(island.evaluations for island in islands)
    population = min(
        island.drawn if parameters.form == "power-law" else len(island.population)
        for island in islands
    )
    return EvolutionFold(
        held_out=plan.held_out,
        trained=plan.trained,
        expression=str(tree),
        formula=pretty_formula(tree),
        factors=factors,
        front=tuple(
            FrontFormula(
                expression=str(i.tree),
                size=i.tree.size,
                jcm=i.jcm,
                partial_tau=i.partial_tau,
                taus=dict(zip(pairs, i.taus, strict=True)),
                chosen=i.tree == tree,
            )
            for i in sorted(front, key=lambda i: i.tree.size)
        ),
        committee=None if committee is None else str(committee),
        evaluations=evaluations,
        counts=EvolutionCounts(
            iterations=RequestedAndDone(asked=parameters.iterations, done=iterations),
            evaluations=RequestedAndDone(asked=parameters.evaluations, done=evaluations),
            population=RequestedAndDone(asked=parameters.population, done=population),
        ),
        ended=None if iterations == parameters.iterations else _ended(parameters, islands),
        islands=tuple(
            Island(iterations=island.iteration, evaluations=island.evaluations)
            for island in islands
        ),
        stopped=invalid.pop(STOPPED, 0),
        invalid=dict(invalid),
        spaces=dict(quality),
    )


def _ended(parameters: EvolutionParameters, islands: Sequence[State]) -> str:
    """Say in one sentence what the budget of evaluations was enough for."""
    evaluations = sum(island.evaluations for island in islands)
    drawn = sum(island.drawn for island in islands)
    done = sorted({island.iteration for island in islands})
    spent = f"{evaluations} evaluation{'s' if evaluations > 1 else ''}"
    if done == [0]:
        children = f" and {evaluations - drawn} children" if evaluations > drawn else ""
        rule = f"{spent}: no iteration was completed"
        return f"{rule}; the formula is the best of {drawn} random ones{children}"
    each = " to ".join(map(str, dict.fromkeys((done[0], done[-1]))))
    return f"{spent}: {each} of {parameters.iterations} iterations were completed"
