"""The command `rediscover`: evolve formulas until one gives the same scores as a known proxy.

The search sees the proxy's scores of small networks, and nothing else of the proxy. The networks
are PiTs of a quarter of the published widths: their blocks differ in width and in number of tokens,
so that a formula of the structure has to be right in both. A formula that fits is compared with the
proxy by its canonical form, by sympy, and by the scores of fresh networks of another space, in full
resolution and of the published sizes.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import RediscoverConfig
from autoprox.configurations.shared_options import completed
from autoprox.engine.tree_evaluator import REASONS, TreeEvaluator
from autoprox.errors import AutoproxError, MeasurementError
from autoprox.evaluation.cache_settings import cache_settings
from autoprox.evaluation.configured_inputs import input_digests
from autoprox.export import pretty_formula
from autoprox.files.json_documents import JSONDocument
from autoprox.inputs.batch_loading import load_batches
from autoprox.language import Tree, make_tree, require_complete_proxy, statistics
from autoprox.progress import Note, Progress
from autoprox.rediscovery.formula_equality import (
    EqualityEvidence,
    equality_by_networks,
    equality_by_sympy,
    equality_by_tree,
)
from autoprox.rediscovery.formula_growth import REDISCOVERY_WORDS
from autoprox.rediscovery.formula_search import FormulaSearch
from autoprox.runs.folder import NAME, Run
from autoprox.runs.proxy_file import Found, ProxyRecord, Taus
from autoprox.runs.summary import Summary
from autoprox.scoring.bootstrap import Number
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.pit import PIT, PiTSpace
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.searchspaces.space import one
from autoprox.statistics.collector import MeasurementSetting, resolve_device
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo.proxy_loading import resolve_proxy

SMALL_PIT = PiTSpace(
    "pit-small",
    "PiT with a quarter of the base dimension",
    {**PIT.fields, "base_dim": one(4, 6, 8, 10)},
)
NOISE, NOISE_CLASSES, NOISE_BATCH = "noise", 10, 2
SCREENED = 8  # fresh networks that show most formulas to be wrong, before all are measured
COMPARED_AT_ONCE = 32  # formulas that fit and are compared with the proxy at a time, the smallest


class RediscoveryTarget(JSONDocument):
    """The proxy that is looked for."""

    source: str
    expression: str


class RediscoverSummary(Summary):
    """The formula and the evidence; without success the term that correlates best."""

    success: bool
    evidence: EqualityEvidence | None
    expression: str
    formula: str
    correlation: Number
    target: RediscoveryTarget
    seed: int
    rounds: int
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class NetworkSample:
    """Random networks of a space; every `stride`-th row and column of their matrices is read."""

    space: SearchSpace
    count: int
    stride: int = 1

    def architectures(self, rng: Random) -> list[Architecture]:
        return ArchitectureSampler(SizeLimits(self.space, NOISE_CLASSES)).sample(self.count, rng)

    def setting(self, seed: int, device: torch.device) -> MeasurementSetting:
        classes = {NOISE: NOISE_CLASSES}
        batches = load_batches(self.space, classes, batch_size=NOISE_BATCH, seed=seed)
        return MeasurementSetting(batches, self.stride, device)


class RediscoverTask(CommandTask[RediscoverConfig, RediscoverSummary]):
    """The proxy to look for, the networks to evolve on, and fresh ones to compare on."""

    summary = RediscoverSummary

    def __init__(
        self,
        config: RediscoverConfig,
        evolved: NetworkSample | None = None,
        fresh: NetworkSample | None = None,
    ) -> None:
        super().__init__(completed(config, device=resolve_device(config.device)))
        self.target = require_complete_proxy(resolve_proxy(str(config.proxy)).tree)
        self.evolved = evolved or NetworkSample(SMALL_PIT, 48, stride=4)
        self.fresh = fresh or NetworkSample(get_space("autoformer-ti"), 64)

    @property
    def name(self) -> str:
        stem = Path(self.config.proxy).stem
        stem = stem if NAME.fullmatch(stem) else "proxy"
        return f"rediscover-{stem}-seed{self.config.seed}"[:80]

    @property
    def read(self) -> dict[str, str]:
        return input_digests({}, proxy=str(self.target))

    @property
    def device(self) -> torch.device:
        """The device on which networks are measured."""
        return torch.device(self.config.device)

    def work(self, run: Run, progress: Progress) -> RediscoverSummary:
        """Search until a formula is right or the time is up.

        A resumed search repeats its recorded rounds from the seed. What was found in them isn't
        compared again, except in the last one, which may have found the proxy.
        """
        run.check_log()
        started, config, log = time.monotonic(), self.config, run.read_log()
        run.truncate_log(len(log))
        rng = Random(config.seed)
        engine = TreeEvaluator(self._measured(rng, progress))
        search = FormulaSearch(engine, self._target_scores(engine), rng)
        search.begin()
        comparison, rounds = TargetComparison(self), 0
        for line in log[:-1]:
            progress("repeat", rounds + 1, len(log), str(line["expression"]))
            comparison.skip(search.round())
            rounds += 1
        if log:  # repeating rounds doesn't count
            started = time.monotonic() - float(log[-1]["seconds"])

        def seconds() -> float:
            return round(time.monotonic() - started, 3)

        success = None
        while success is None and (seconds() < config.seconds or rounds < len(log)):
            best, tried = search.population[0], search.evaluations
            words = f"{tried} formulas, best correlation {best.jcm:.4f}"
            note = Note(
                words, value=best.jcm, of="correlation", formula=str(best.tree), tried=tried
            )
            progress("rediscover", int(seconds()), math.ceil(config.seconds), note)
            rounds += 1
            found = search.round()
            success = comparison.first_equivalent(found)
            if rounds > len(log):
                best = search.population[0]
                run.log(
                    {
                        "round": rounds,
                        "evaluations": search.evaluations,
                        "best": best.jcm,
                        "expression": str(best.tree),
                        "fitting": len(found),
                        "seconds": seconds(),
                    }
                )
        best = search.population[0]
        tree, evidence = success or (best.tree, None)
        if evidence:
            self._write_proxy(run, tree, evidence)
        return RediscoverSummary(
            success=evidence is not None,
            evidence=evidence,
            expression=str(tree),
            formula=pretty_formula(tree),
            correlation=None if evidence else best.jcm,
            target=RediscoveryTarget(source=str(config.proxy), expression=str(self.target)),
            seed=config.seed,
            rounds=rounds,
            evaluations=search.evaluations,
            seconds=seconds(),
        )

    def _measured(self, rng: Random, progress: Progress) -> CachedMatrices:
        """Measure all statistics of the networks to evolve on, whichever the proxy reads."""
        architectures = self.evolved.architectures(rng)
        trees = (*map(make_tree, REDISCOVERY_WORDS), self.target)
        matrices = CachedMatrices(
            self.evolved.setting(self.config.seed, self.device),
            untrained_space_networks(self.evolved.space, architectures, self.config.seed),
            {part for tree in trees for s in statistics(tree) for part in s.parts},
            pool=self.pool,
            **cache_settings(self.config)._asdict(),
        )
        done = itertools.count(1)
        matrices.collect(lambda: progress("collect", next(done), len(architectures), ""))
        if matrices.failures:
            raise MeasurementError(f"a network failed: {next(iter(matrices.failures.values()))}")
        return matrices

    def _target_scores(self, engine: TreeEvaluator) -> Floats:
        scores = engine.evaluate([self.target])
        if reason := scores.reasons.max():
            raise AutoproxError(
                f"a proxy to rediscover must tell the {scores.values.shape[-1]} networks apart, "
                f"but the scores of {self.target} are {REASONS[reason]}"
            )
        values: Floats = scores.values[0, 0]
        return values

    def _write_proxy(self, run: Run, tree: Tree, evidence: EqualityEvidence) -> None:
        found = Found(
            run=run.name,
            space=self.evolved.space.name,
            benchmark=f"the scores of {self.config.proxy}",
            label="scores",
            datasets=[NOISE],
            seed=self.config.seed,
        )
        taus: Taus = {} if evidence.tau is None else {"fresh": {NOISE: evidence.tau}}
        run.write_proxies([ProxyRecord(str(tree), pretty_formula(tree), found, taus)])


class TargetComparison:
    """Compares formulas that fit with the proxy that is looked for, each of them once."""

    def __init__(self, task: RediscoverTask) -> None:
        self._task = task
        self._architectures = task.fresh.architectures(Random(f"fresh {task.config.seed}"))
        self._pending: dict[Tree, None] = {}
        self._compared: set[Tree] = set()

    def first_equivalent(self, found: Sequence[Tree]) -> tuple[Tree, EqualityEvidence] | None:
        """Return the smallest formula that is the proxy, by the first kind of evidence for any.

        At most COMPARED_AT_ONCE formulas are compared by sympy and on networks, the others later.
        """
        self._add(found)
        pending = self._smallest()
        for compare, trees in (
            (equality_by_tree, pending),
            (equality_by_sympy, pending[:COMPARED_AT_ONCE]),
        ):
            for tree in trees:
                if evidence := compare(tree, self._task.target):
                    return tree, evidence
        right = self._by_networks(self._take(), self._architectures[:SCREENED])
        right = self._by_networks([tree for tree, _ in right], self._architectures)
        return right[0] if right else None

    def skip(self, found: Sequence[Tree]) -> None:
        """Count formulas of a recorded round without success as compared."""
        self._add(found)
        self._take()

    def _add(self, found: Sequence[Tree]) -> None:
        self._pending.update((tree, None) for tree in found if tree not in self._compared)

    def _smallest(self) -> list[Tree]:
        return sorted(self._pending, key=lambda tree: tree.size)

    def _take(self) -> list[Tree]:
        """Remove the smallest formulas from those that are pending."""
        chosen = self._smallest()[:COMPARED_AT_ONCE]
        self._compared.update(chosen)
        for tree in chosen:
            del self._pending[tree]
        return chosen

    def _by_networks(
        self, trees: Sequence[Tree], architectures: Sequence[Architecture]
    ) -> list[tuple[Tree, EqualityEvidence]]:
        if not trees:
            return []
        task, seed = self._task, self._task.config.seed
        networks = untrained_space_networks(task.fresh.space, architectures, seed)
        fresh = UncachedMatrices(task.fresh.setting(seed, task.device), networks, task.pool)
        compared = zip(trees, equality_by_networks(trees, task.target, fresh), strict=True)
        return [(tree, evidence) for tree, evidence in compared if evidence]
