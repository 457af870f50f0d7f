"""Rediscovers a known proxy: evolves formulas until one says the same of untrained networks.

The search (`rediscovery_search`) sees the scores that the proxy gives to small networks, and
nothing else of it. These are PiTs of a quarter of the published widths: their blocks differ in
width and in number of tokens, so that a formula of the structure has to be right in both. A formula
that fits is compared with the proxy (`rediscovery_evidence`) by its canonical form, by sympy, and
by the scores of fresh networks of another space, whole ones of the published sizes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from autoprox.engine.evaluator import REASONS, Engine
from autoprox.errors import AutoproxError, MeasurementError
from autoprox.export import pretty
from autoprox.inputs.batches import load_batches
from autoprox.language import (
    Tree,
    make_tree,
    require_network,
    statistics,
)
from autoprox.progress import Note, Progress
from autoprox.rediscovery.evidence import Evidence, by_form, by_networks, by_tree
from autoprox.rediscovery.growth import WORDS
from autoprox.rediscovery.search import FormulaSearch
from autoprox.runs.folder import NAME, Run
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.base import one
from autoprox.searchspaces.limits import SizeLimits
from autoprox.searchspaces.pit import PIT, PiTSpace
from autoprox.searchspaces.sampler import Sampler
from autoprox.statistics.cached import CachedMatrices
from autoprox.statistics.collector import Setting, resolve_device
from autoprox.statistics.networks import space_networks
from autoprox.statistics.sources import StreamedMatrices
from autoprox.tasks.base import Task, completed, digests
from autoprox.tasks.cache import kept_of
from autoprox.tasks.configurations import RediscoverConfig
from autoprox.zoo.proxy_loading import resolve_proxy

SMALL_PIT = PiTSpace(
    "pit-small",
    "PiT with a quarter of the base dimension",
    {**PIT.fields, "base_dim": one(4, 6, 8, 10)},
)
DATASET, CLASSES, BATCH = "noise", 10, 2
SCREEN = 8  # fresh networks that show most formulas to be wrong, before all are measured
COMPARED = 32  # formulas that fit and are compared with the proxy at a time, the smallest

Success = tuple[Tree, Evidence]


@dataclass(frozen=True)
class Networks:
    """Random networks of a space, of whose matrices every `thin`-th row and column is read."""

    space: SearchSpace
    count: int
    thin: int = 1

    def architectures(self, rng: Random) -> list[Architecture]:
        return Sampler(SizeLimits(self.space, CLASSES)).sample(self.count, rng)

    def setting(self, seed: int, device: torch.device) -> Setting:
        batches = load_batches(self.space, {DATASET: CLASSES}, batch_size=BATCH, seed=seed)
        return Setting(batches, self.thin, device)


class Rediscover(Task[RediscoverConfig]):
    """The proxy to look for, the networks to evolve on, and fresh ones to compare on."""

    def __init__(
        self,
        config: RediscoverConfig,
        evolved: Networks | None = None,
        fresh: Networks | None = None,
    ) -> None:
        super().__init__(completed(config, device=resolve_device(config.device)))
        self.target = require_network(resolve_proxy(str(config.proxy)).tree)
        self.evolved = evolved or Networks(SMALL_PIT, 48, thin=4)
        self.fresh = fresh or Networks(get_space("autoformer-ti"), 64)

    @property
    def name(self) -> str:
        stem = Path(self.config.proxy).stem
        stem = stem if NAME.fullmatch(stem) else "proxy"
        return f"rediscover-{stem}-seed{self.config.seed}"[:80]

    @property
    def read(self) -> dict[str, str]:
        return digests({}, proxy=str(self.target))

    @property
    def device(self) -> torch.device:
        """Where networks are measured."""
        return torch.device(self.config.device)

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Search until a formula is right or the time is up.

        A search that is gone on with makes its rounds on record again, from the seed, but doesn't
        judge again what was found in them.
        """
        run.check_log()
        started, config, log = time.monotonic(), self.config, run.read_log()
        run.truncate_log(len(log))
        rng = Random(config.seed)
        engine = Engine(self._collect(rng, progress))
        search = FormulaSearch(engine, self._scores(engine), rng)
        search.begin()
        rounds = Rounds(search, Judge(self), run, progress)
        rounds.repeat(log)
        success = rounds.until(config.seconds, started)
        summary = {
            **_outcome(search, success),
            "target": {"source": config.proxy, "expression": str(self.target)},
            "seed": config.seed,
            "rounds": rounds.number,
            "evaluations": search.evaluations,
            "seconds": rounds.seconds(),
        }
        if success:
            run.write_proxies([self._record(run, *success)])
        return summary

    def _collect(self, rng: Random, progress: Progress) -> CachedMatrices:
        """All statistics of the networks to evolve on, whichever the proxy reads."""
        architectures = self.evolved.architectures(rng)
        trees = (*map(make_tree, WORDS), self.target)
        matrices = CachedMatrices(
            self.evolved.setting(self.config.seed, self.device),
            space_networks(self.evolved.space, architectures, self.config.seed),
            {part for tree in trees for s in statistics(tree) for part in s.parts},
            crew=self.crew,
            **kept_of(self.config)._asdict(),
        )
        done = itertools.count(1)
        matrices.collect(lambda: progress("collect", next(done), len(architectures), ""))
        if matrices.failures:
            raise MeasurementError(f"a network failed: {next(iter(matrices.failures.values()))}")
        return matrices

    def _scores(self, engine: Engine) -> Floats:
        scores = engine.evaluate([self.target])
        if reason := scores.reasons.max():
            raise AutoproxError(
                f"a proxy to rediscover must tell the {scores.values.shape[-1]} networks apart, "
                f"but the scores of {self.target} are {REASONS[reason]}"
            )
        values: Floats = scores.values[0, 0]
        return values

    def _record(self, run: Run, tree: Tree, evidence: Evidence) -> Mapping[str, Any]:
        """The formula for a proxy file."""
        found = {
            "run": run.name,
            "space": self.evolved.space.name,
            "benchmark": f"the scores of {self.config.proxy}",
            "label": "scores",
            "datasets": [DATASET],
            "seed": self.config.seed,
        }
        taus = {} if evidence.tau is None else {"fresh": {DATASET: evidence.tau}}
        return {"expression": str(tree), "formula": pretty(tree), "found": found, "taus": taus}


class Rounds:
    """The rounds of a search, each on record, and the time that they took."""

    def __init__(self, search: FormulaSearch, judge: Judge, run: Run, progress: Progress) -> None:
        self.number = 0
        self._search = search
        self._judge = judge
        self._run = run
        self._progress = progress
        self._logged = 0
        self._origin = time.monotonic()

    def seconds(self) -> float:
        """The time spent so far, without that for making rounds again."""
        return round(time.monotonic() - self._origin, 3)

    def repeat(self, log: Sequence[Mapping[str, Any]]) -> None:
        """Make all rounds on record again but the last, which may have found the proxy."""
        self._logged = len(log)
        for line in log[:-1]:
            self._progress("repeat", self.number + 1, len(log), str(line["expression"]))
            self._judge.known_wrong(self._search.round())
            self.number += 1
        if log:
            self._origin = time.monotonic() - float(log[-1]["seconds"])

    def until(self, limit: float, started: float) -> Success | None:
        """Rounds until a formula is right, or the time is up."""
        if not self._logged:
            self._origin = started
        success = None
        while success is None and (self.seconds() < limit or self.number < self._logged):
            best = self._search.population[0]
            tried, text = self._search.evaluations, str(best.tree)
            words = f"{tried} formulas, best correlation {best.jcm:.4f}"
            note = Note(words, value=best.jcm, of="correlation", formula=text, tried=tried)
            self._progress("rediscover", int(self.seconds()), math.ceil(limit), note)
            self.number += 1
            found = self._search.round()
            success = self._judge(found)
            if self.number > self._logged:
                self._log(len(found))
        return success

    def _log(self, fitting: int) -> None:
        best = self._search.population[0]
        self._run.log(
            {
                "round": self.number,
                "evaluations": self._search.evaluations,
                "best": best.jcm,
                "expression": str(best.tree),
                "fitting": fitting,
                "seconds": self.seconds(),
            }
        )


class Judge:
    """Compares the formulas that fit with the proxy that is looked for, each once."""

    def __init__(self, task: Rediscover) -> None:
        self._task = task
        self._target = task.target
        self._architectures = task.fresh.architectures(Random(f"fresh {task.config.seed}"))
        self._pending: dict[Tree, None] = {}
        self._tried: set[Tree] = set()

    def __call__(self, found: Sequence[Tree]) -> Success | None:
        """A formula that is the proxy, the smallest by the first evidence that there is."""
        trees = self._untried(found)
        for compare, compared in ((by_tree, trees), (by_form, trees[:COMPARED])):
            for tree in compared:
                if evidence := compare(tree, self._target):
                    return tree, evidence
        chosen = self._try(trees)
        right = self._by_networks(chosen, self._architectures[:SCREEN])
        right = self._by_networks([tree for tree, _ in right], self._architectures)
        return right[0] if right else None

    def known_wrong(self, found: Sequence[Tree]) -> None:
        """What was found in a round that is on record, without success."""
        self._try(self._untried(found))

    def _untried(self, found: Sequence[Tree]) -> list[Tree]:
        self._pending.update((tree, None) for tree in found if tree not in self._tried)
        return sorted(self._pending, key=lambda tree: tree.size)

    def _try(self, trees: Sequence[Tree]) -> Sequence[Tree]:
        chosen = trees[:COMPARED]
        self._tried.update(chosen)
        for tree in chosen:
            del self._pending[tree]
        return chosen

    def _by_networks(
        self, trees: Sequence[Tree], architectures: Sequence[Architecture]
    ) -> list[Success]:
        if not trees:
            return []
        config = self._task.config
        setting = self._task.fresh.setting(config.seed, self._task.device)
        networks = space_networks(self._task.fresh.space, architectures, config.seed)
        fresh = StreamedMatrices(setting, networks, self._task.crew)
        judged = zip(trees, by_networks(trees, self._target, fresh), strict=True)
        return [(tree, evidence) for tree, evidence in judged if evidence]


def _outcome(search: FormulaSearch, success: Success | None) -> dict[str, Any]:
    """The formula and the evidence; without success the term that correlates best."""
    tree, evidence = success or (search.population[0].tree, None)
    return {
        "success": success is not None,
        "evidence": asdict(evidence) if evidence else None,
        "expression": str(tree),
        "formula": pretty(tree),
        "correlation": None if success else search.population[0].jcm,
    }
