"""Discovers a proxy: from a benchmark and a seed to a formula and what it is worth on the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from deap import base

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.collector import Setting
from autoprox.engine import REASONS, Engine
from autoprox.errors import AutoproxError
from autoprox.evolution import STRATEGIES, Individual, Settings, State, evolve, simplest
from autoprox.fitness import jcm, kendall, split
from autoprox.grammar import Grammar, Limits
from autoprox.inputs import load_batch
from autoprox.language import STATISTICS, Statistic, Tree, statistics
from autoprox.printing import pretty
from autoprox.report import baselines, mean_kendall, on_part
from autoprox.runs import Run
from autoprox.searchspaces import get_space
from autoprox.store import GIB, Fresh, Store


@dataclass(frozen=True)
class Config:
    """Everything that a discovery depends on; a run folder's config.json is this."""

    benchmark: str = "vit-bench-101"
    space: str | None = None
    datasets: tuple[str, ...] | None = None
    label: str | None = None
    subset: str = "main"
    data_dir: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    batch_size: int = 4
    strategy: str = "elitist"
    settings: Settings = Settings()
    limits: Limits = Limits()
    statistics: tuple[str, ...] = tuple(STATISTICS)
    weights: tuple[float, ...] | None = None
    train: float = 0.6
    seed: int = 0
    split_seed: int | None = None
    thin: int = 4
    memory: int = 4 * GIB
    workers: int = 2
    device: str = "cpu"
    cache: str | None = None
