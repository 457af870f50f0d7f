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
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

import torch

from autoprox.benchmarks.files import user_cache
from autoprox.engine.evaluator import REASONS, Engine
from autoprox.engine.program import single_domains
from autoprox.errors import AutoproxError, MeasurementError
from autoprox.export.formula import pretty
from autoprox.inputs.batches import load_batches
from autoprox.language.tree import (
    STATISTICS,
    Tree,
    make,
    require_network,
    statistics,
)
from autoprox.parallel.threads import one_thread
from autoprox.rediscovery.evidence import Evidence, by_form, by_networks, by_tree
from autoprox.rediscovery.search import Search
from autoprox.rules import require_number, require_whole
from autoprox.runs.folder import NAME, Run
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.base import one
from autoprox.searchspaces.pit import PIT, PiTSpace
from autoprox.statistics.cached import CachedMatrices
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import space_networks
from autoprox.statistics.streamed import StreamedMatrices
from autoprox.tasks.config import resolve_device
from autoprox.tasks.evolve import Progress, silent
from autoprox.zoo.loading import load

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
        found: dict[Architecture, None] = {}
        while len(found) < self.count:
            found[self.space.sample(rng)] = None
        return list(found)

    def setting(self, seed: int, device: torch.device) -> Setting:
        batches = load_batches(self.space, {DATASET: CLASSES}, batch_size=BATCH, seed=seed)
        return Setting(batches, self.thin, device)


@dataclass(frozen=True)
class Setup:
    """What a rediscovery depends on, and what it may use."""

    seed: int = 0
    seconds: float = 600.0
    workers: int = 2
    device: str = "auto"
    cache: str | None = None
    evolved: Networks = Networks(SMALL_PIT, 48, thin=4)
    fresh: Networks = Networks(get_space("autoformer-ti"), 64)

    def __post_init__(self) -> None:
        require_whole("seed", self.seed, 0)
        require_whole("workers", self.workers, 1)
        require_number("seconds", self.seconds, "> 0", lambda seconds: 0 < seconds < float("inf"))
        object.__setattr__(self, "device", resolve_device(self.device))

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("evolved", "fresh"):
            networks: Networks = plain[name]
            plain[name] = {
                "space": networks.space.name,
                "networks": networks.count,
                "thin": networks.thin,
            }
        return plain


def rediscover(
    source: str,
    setup: Setup | None = None,
    root: Path = Path("runs"),
    name: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Rediscover the proxy that `source` means, in a new run folder; returns the run's summary."""
    setup = setup or Setup()
    target = require_network(load(source).tree)
    started = time.monotonic()
    with one_thread():
        rng = Random(setup.seed)
        engine = Engine(_collect(setup, rng, progress))
        scores = _scores(engine, target)
        config = {"target": source, "expression": str(target), **setup.to_json()}
        with Run.create(root, name or _name(source, setup.seed), config, setup.device) as run:
            progress("run", 0, 0, str(run.path))
            search, judge = Search(engine, scores, rng), Judge(target, setup)
            search.begin()
            rounds, success = _evolve(search, judge, run, setup.seconds, started, progress)
            summary = {
                **_outcome(search, success),
                "target": {"source": source, "expression": str(target)},
                "seed": setup.seed,
                "rounds": rounds,
                "evaluations": search.evaluations,
                "seconds": round(time.monotonic() - started, 3),
            }
            run.write_summary(summary)
            if success:
                run.write_proxies([_record(run, source, setup, *success)])
    return {"run": str(run.path), **summary}


def _evolve(
    search: Search, judge: Judge, run: Run, limit: float, started: float, progress: Progress
) -> tuple[int, Success | None]:
    """Rounds of the search, until a formula is right or the time is up."""
    rounds, success = 0, None
    while success is None and (seconds := time.monotonic() - started) < limit:
        note = f"{search.evaluations} formulas, best correlation {search.population[0].jcm:.4f}"
        progress("rediscover", int(seconds), math.ceil(limit), note)
        rounds += 1
        found = search.round()
        success = judge(found)
        run.log(
            {
                "round": rounds,
                "evaluations": search.evaluations,
                "best": search.population[0].jcm,
                "expression": str(search.population[0].tree),
                "fitting": len(found),
                "seconds": round(time.monotonic() - started, 3),
            }
        )
    return rounds, success


class Judge:
    """Compares the formulas that fit with the proxy that is looked for, each once."""

    def __init__(self, target: Tree, setup: Setup) -> None:
        self._target = target
        self._setup = setup
        self._architectures = setup.fresh.architectures(Random(f"fresh {setup.seed}"))
        self._pending: dict[Tree, None] = {}
        self._tried: set[Tree] = set()

    def __call__(self, found: Sequence[Tree]) -> Success | None:
        """A formula that is the proxy, the smallest by the first evidence that there is."""
        self._pending.update((tree, None) for tree in found if tree not in self._tried)
        trees = sorted(self._pending, key=lambda tree: tree.size)
        for compare, compared in ((by_tree, trees), (by_form, trees[:COMPARED])):
            for tree in compared:
                if evidence := compare(tree, self._target):
                    return tree, evidence
        chosen = trees[:COMPARED]
        self._tried.update(chosen)
        for tree in chosen:
            del self._pending[tree]
        right = self._by_networks(chosen, self._architectures[:SCREEN])
        right = self._by_networks([tree for tree, _ in right], self._architectures)
        return right[0] if right else None

    def _by_networks(
        self, trees: Sequence[Tree], architectures: Sequence[Architecture]
    ) -> list[Success]:
        if not trees:
            return []
        device = torch.device(self._setup.device)
        setting = self._setup.fresh.setting(self._setup.seed, device)
        networks = space_networks(self._setup.fresh.space, architectures, self._setup.seed)
        fresh = StreamedMatrices(setting, networks, self._setup.workers)
        judged = zip(trees, by_networks(trees, self._target, fresh), strict=True)
        return [(tree, evidence) for tree, evidence in judged if evidence]


def _collect(setup: Setup, rng: Random, progress: Progress) -> CachedMatrices:
    """All statistics of the networks to evolve on, whichever the proxy reads."""
    architectures = setup.evolved.architectures(rng)
    parts = [part for name in STATISTICS for part in single_domains(make(name))]
    done = itertools.count(1)
    store = CachedMatrices(
        setup.evolved.setting(setup.seed, torch.device(setup.device)),
        space_networks(setup.evolved.space, architectures, setup.seed),
        {s for part in parts for s in statistics(part)},
        folder=(Path(setup.cache) if setup.cache else user_cache()) / "statistics",
        workers=setup.workers,
    )
    store.collect(lambda: progress("collect", next(done), len(architectures), ""))
    if store.failures:
        raise MeasurementError(f"a network failed: {next(iter(store.failures.values()))}")
    return store


def _scores(engine: Engine, target: Tree) -> Floats:
    scores = engine.evaluate([target])
    if reason := scores.reasons.max():
        raise AutoproxError(
            f"a proxy to rediscover must tell the {scores.values.shape[-1]} networks apart, "
            f"but the scores of {target} are {REASONS[reason]}"
        )
    values: Floats = scores.values[0, 0]
    return values


def _name(source: str, seed: int) -> str:
    stem = Path(source).stem
    return f"rediscover-{stem if NAME.fullmatch(stem) else 'proxy'}-seed{seed}"[:80]


def _outcome(search: Search, success: Success | None) -> dict[str, Any]:
    """The formula and the evidence; without success the term that correlates best."""
    tree, evidence = success or (search.population[0].tree, None)
    return {
        "success": success is not None,
        "evidence": asdict(evidence) if evidence else None,
        "expression": str(tree),
        "formula": pretty(tree),
        "correlation": None if success else search.population[0].jcm,
    }


def _record(
    run: Run, source: str, setup: Setup, tree: Tree, evidence: Evidence
) -> Mapping[str, Any]:
    """The formula for a proxy file."""
    found = {
        "run": run.name,
        "space": setup.evolved.space.name,
        "benchmark": f"the scores of {source}",
        "label": "scores",
        "datasets": [DATASET],
        "seed": setup.seed,
    }
    taus = {} if evidence.tau is None else {"fresh": {DATASET: evidence.tau}}
    return {"expression": str(tree), "formula": pretty(tree), "found": found, "taus": taus}
