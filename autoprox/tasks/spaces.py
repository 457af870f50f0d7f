"""Discovers one proxy for many spaces, and says what it is worth on one that it never saw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from autoprox.engine.evaluator import Engine, SourceNetworks
from autoprox.errors import ConfigError, nearest
from autoprox.evolution import (
    Individual,
    State,
    evolve,
    make_toolbox,
    require_formula,
)
from autoprox.export import pretty
from autoprox.language import digest, parse
from autoprox.parameters import EvolutionParameters
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.scoring.correlations import Indices, jcm
from autoprox.shortfalls import Shortfall
from autoprox.statistics.cached import CachedMatrices
from autoprox.tasks.base import Task, absolute, completed
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.counts import evolution_counts
from autoprox.tasks.course import Course
from autoprox.tasks.evolve import Evolve, described, note_of
from autoprox.tasks.fields import fields_of
from autoprox.tasks.halving import STOPPED, Halving, blocks
from autoprox.tasks.trial import Ground, Trial
from autoprox.tasks.whole import chosen_whole

Sources = Mapping[str, Sequence[CachedMatrices]]  # by space, a source for each block
EACH = "each"


class Fold(NamedTuple):
    """One evolution: on which spaces, and on which its proxy is measured."""

    held_out: str | None
    trained: tuple[str, ...]
    measured: tuple[str, ...]


class Found(NamedTuple):
    """What the islands of a fold found."""

    front: Sequence[Individual]
    evaluations: int
    invalid: dict[str, int]
    islands: Sequence[State]


def evolution(config: EvolveConfig) -> Task[EvolveConfig]:
    """The task of a configuration: on one space, or on several."""
    if config.spaces is not None:
        return EvolveSpaces(config)
    for name in ("hold_out", "islands", "halving"):
        if (value := getattr(config, name)) != EvolveConfig.model_fields[name].default:
            raise ConfigError(f"{name} needs spaces, but got {value} without them")
    return Evolve(config)


class EvolveSpaces(Task[EvolveConfig]):
    """The discovery of a proxy on the training parts of several spaces' networks."""

    def __init__(self, config: EvolveConfig) -> None:
        self.fields = fields_of(config)
        first = next(iter(self.fields.values()))
        shared = ("statistics", "zoo", "device", "split_seed", "set")
        tables = (absolute(e) if e.endswith(".json") else e for e in config.spaces or ())
        super().__init__(
            completed(
                config,
                spaces=tuple(tables),
                hold_out=self._held_out(config),
                **{name: getattr(first.config, name) for name in shared},
            )
        )
        if config.evaluations is not None and config.evaluations < config.islands:
            rule = f"evaluations must be at least one for each of {config.islands} islands"
            raise ConfigError(f"{rule}, but are {config.evaluations}")
        self.form, self.strategy, self.parameters = first.form, first.strategy, first.parameters
        self.folds = self._folds()
        self.blocks = {
            name: blocks(field.parts["train"], name) if config.halving else [field.parts["train"]]
            for name, field in self.fields.items()
        }

    def _held_out(self, config: EvolveConfig) -> str | None:
        """The name of the field that is held out, or `each`."""
        names = dict(zip(config.spaces or (), self.fields, strict=True))
        held_out = names.get(str(config.hold_out), config.hold_out)
        if held_out is not None and held_out not in (*self.fields, EACH):
            known = nearest(held_out, [*self.fields, EACH])
            raise ConfigError(f"the hold-out must be one of the spaces, but is {held_out!r}{known}")
        if held_out is not None and len(self.fields) < 2:
            raise ConfigError(f"{held_out} can't be held out, for there is no other space")
        return held_out

    def _folds(self) -> list[Fold]:
        names, held_out = tuple(self.fields), self.config.hold_out
        jcm(np.zeros(len(self.pairs(names))), self.config.weights)
        if held_out is None:
            return [Fold(None, names, names)]
        out = names if held_out == EACH else (held_out,)
        folds = [
            Fold(own, tuple(n for n in names if n != own), (own,) if held_out == EACH else names)
            for own in out
        ]
        for fold in folds:
            jcm(np.zeros(len(self.pairs(fold.trained))), self.weights(fold))
        return folds

    def pairs(self, names: Sequence[str]) -> list[str]:
        """All pairs of these spaces and their datasets."""
        return [f"{name}/{d}" for name in names for d in self.fields[name].benchmark.datasets]

    def weights(self, fold: Fold) -> tuple[float, ...] | None:
        """Those of the pairs that a fold evolves on."""
        if self.config.weights is None:
            return None
        known = dict(zip(self.pairs(tuple(self.fields)), self.config.weights, strict=True))
        return tuple(known[pair] for pair in self.pairs(fold.trained))

    def _config_of(self, fold: Fold) -> EvolveConfig:
        return completed(self.config, weights=self.weights(fold))

    @property
    def name(self) -> str:
        return f"{len(self.fields)}-spaces-seed{self.config.seed}"

    @property
    def read(self) -> dict[str, str]:
        return {f"{n} {k}": v for n, field in self.fields.items() for k, v in field.read.items()}

    @property
    def counts(self) -> list[Shortfall]:
        return [own for field in self.fields.values() for own in field.counts]

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Evolve for each fold on thinned matrices, choose and measure on whole ones."""
        pairs = [len(self.pairs(fold.trained)) for fold in self.folds]
        course = Course(run, pairs, self.config.objective)
        with as_written(run.path, "a checkpoint"):
            for fold, done in zip(self.folds, course.folds, strict=False):
                if (fold.held_out, list(fold.trained)) != (done["held_out"], done["trained"]):
                    raise ValueError(f"{done['trained']} aren't the spaces of the fold")
            self._proxy_records(run, course.folds)
        left = self.folds[len(course.folds) :]
        trained = dict.fromkeys(name for fold in left for name in fold.trained)
        sources = {name: self._collected(name, len(trained), progress) for name in trained}
        for fold in left:
            course.finish(self._fold(fold, sources, course, progress))
        summary = {
            "expression": course.folds[0]["expression"],
            "formula": course.folds[0]["formula"],
            "folds": course.folds,
            "hold_out": self.config.hold_out,
            "objective": self.config.objective,
            "ties": self.config.ties,
            "spaces": {
                name: {
                    "benchmark": field.benchmark.source,
                    "inputs": {dataset: b.source for dataset, b in field.batches.items()},
                    "lacking": [
                        dataset
                        for dataset in self.config.datasets or ()
                        if dataset not in field.batches
                    ],
                }
                for name, field in self.fields.items()
            },
            "seconds": course.seconds,
        }
        run.write_proxies(self._proxy_records(run, course.folds))
        return summary

    def _collected(self, name: str, spaces: int, progress: Progress) -> list[CachedMatrices]:
        own = self.blocks[name]
        return [self.fields[name].collect(progress, part, spaces * len(own)) for part in own]

    def _fold(
        self, fold: Fold, sources: Sources, course: Course, progress: Progress
    ) -> dict[str, Any]:
        """The proxy that is evolved on the fold's spaces, and what it is worth."""
        config = self._config_of(fold)
        trials = self.trials(fold, sources)
        found = self._evolved(fold, trials, course, progress)
        best = trials[-1].choose(found.front)
        progress("measure", 0, 1, str(best.tree))
        wholes = {
            name: self.fields[name].whole(
                _failures(sources[name], self.blocks[name]) if name in fold.trained else {},
                held_out=name == fold.held_out,
                with_zoo=name in fold.measured,
            )
            for name in (*fold.trained, *fold.measured)
        }
        trained = [wholes[name] for name in fold.trained]
        tree = chosen_whole(trained, config, best, found.front, progress)
        worth = {
            name: wholes[name].measured(tree, self.fields[name].zoo(progress))
            for name in fold.measured
        }
        progress("measure", 1, 1, str(tree))
        return {
            "held_out": fold.held_out,
            "trained": list(fold.trained),
            "expression": str(tree),
            "formula": pretty(tree),
            "front": described(found.front, tree),
            "evaluations": found.evaluations,
            **evolution_counts(config, found.islands),
            "islands": [
                {"iterations": island.iteration, "evaluations": island.evaluations}
                for island in found.islands
            ],
            "stopped": found.invalid.pop(STOPPED, 0),
            "invalid": found.invalid,
            "spaces": worth,
        }

    def trials(self, fold: Fold, sources: Sources) -> list[Trial]:
        """On the first of the blocks of each space, then on ever more of them."""
        config = self._config_of(fold)
        found: dict[str, list[tuple[SourceNetworks, list[int]]]] = {}
        for name in fold.trained:
            pairs = zip(sources[name], self.blocks[name], strict=True)
            found[name] = [
                (
                    SourceNetworks(Engine(source), source.measurable),
                    part[source.measurable].tolist(),
                )
                for source, part in pairs
            ]
        return [
            Trial(config, [self._ground(name, own[:count]) for name, own in found.items()])
            for count in range(1, len(self.blocks[fold.trained[0]]) + 1)
        ]

    def _ground(self, name: str, measured: Sequence[tuple[SourceNetworks, list[int]]]) -> Ground:
        networks = [network for _, part in measured for network in part]
        return Ground(self.fields[name].judge(networks), [block for block, _ in measured])

    def _evolved(
        self, fold: Fold, trials: Sequence[Trial], course: Course, progress: Progress
    ) -> Found:
        """The front of all islands, from where they were stopped."""
        config, individuals = self.config, Halving(trials).individuals
        toolbox = make_toolbox(self.form, individuals, self.strategy, self.parameters)
        for island in range(config.islands):
            own = self.parameters.model_copy(update={"evaluations": self._share(island)})
            if island == len(course.islands):
                course.islands.append(State(Random(f"{config.seed} island {island}")))
            state = course.islands[island]
            about = {"held_out": fold.held_out, "island": island}
            task = _title(fold, island, config.islands)

            def record(
                state: State,
                about: dict[str, Any] = about,
                task: str = task,
                own: EvolutionParameters = own,
            ) -> None:
                course.log({**about, **state.logbook[-1]})
                progress(task, *state.progress(own), note_of(state))

            progress(task, *state.progress(own), note_of(state))
            evolve(toolbox, self.strategy, own, state, record)
        require_formula(course.islands)
        return _together(course.islands)

    def _share(self, island: int) -> int | None:
        """Return how many evaluations an island may make; the first ones take the remainder."""
        config = self.config
        if config.evaluations is None:
            return None
        share, rest = divmod(config.evaluations, config.islands)
        return share + (island < rest)

    def _proxy_records(self, run: Run, folds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The proxy of each fold with its taus on whole matrices, then the rest of the fronts."""
        chosen = [self._record(run, fold, fold["expression"], _taus(fold)) for fold in folds]
        seen = {digest(parse(record["expression"])) for record in chosen}
        others = [
            self._record(run, fold, own["expression"], {})
            for fold in folds
            for own in fold["front"]
            if digest(parse(own["expression"])) not in seen
        ]
        return [*chosen, *others]

    def _record(
        self, run: Run, fold: Mapping[str, Any], expression: str, taus: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A proxy file's content, the names of the spaces together in each of its fields."""
        fields = [self.fields[name] for name in fold["trained"]]
        found = {
            "run": run.name,
            "space": ", ".join(field.space.name for field in fields),
            "benchmark": ", ".join(dict.fromkeys(field.benchmark.name for field in fields)),
            "label": ", ".join(dict.fromkeys(field.benchmark.label for field in fields)),
            "datasets": self.pairs(fold["trained"]),
            "seed": self.config.seed,
            "evolved_on": [field.split_record() for field in fields],
        }
        formula = pretty(parse(expression))
        return {"expression": expression, "formula": formula, "found": found, "taus": taus}


def _together(islands: Sequence[State]) -> Found:
    """One front of all, and what was evaluated."""
    whole, invalid = State(Random(0)), Counter[str]()
    for island in islands:
        whole.front.update(list(island.front))
        invalid.update(island.invalid)
    evaluations = sum(island.evaluations for island in islands)
    return Found(list(whole.front), evaluations, dict(invalid), islands)


def _failures(sources: Sequence[CachedMatrices], parts: Sequence[Indices]) -> dict[int, str]:
    return {
        int(part[n]): reason
        for source, part in zip(sources, parts, strict=True)
        for n, reason in source.failures.items()
    }


def _taus(fold: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By part, then by space and dataset; nothing of a held-out space is a training part."""
    return {
        part: {
            f"{name}/{dataset}": row["kendall"]
            for name, own in fold["spaces"].items()
            if part == "test" or name != fold["held_out"]
            for dataset, row in own[part].items()
        }
        for part in ("train", "test")
    }


def _title(fold: Fold, island: int, islands: int) -> str:
    number = f" {island + 1}/{islands}" if islands > 1 else ""
    held_out = "" if fold.held_out is None else f" without {fold.held_out}"
    return f"evolve{number}{held_out}"
