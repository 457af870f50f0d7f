"""Finds the proxy that a word means: a published name, a run, a proxy file, or an expression."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprox.errors import RunError
from autoprox.language import Tree, parse
from autoprox.runs.folder import HALL_OF_FAME, Run
from autoprox.runs.proxy_file import read_proxy
from autoprox.zoo.expressions import EXPRESSIONS, ProxyError, load_expression
from autoprox.zoo.functions import MEASURES, FunctionProxy


@dataclass(frozen=True)
class Loaded:
    """A tree, which need not be a complete proxy, or a function, and what is known of it."""

    proxy: Tree | FunctionProxy
    citation: str | None = None  # of a published one
    found: Mapping[str, Any] | None = None  # as in a proxy file
    taus: Mapping[str, Mapping[str, float | None]] | None = None
    summary: Mapping[str, Any] | None = None  # of the run that chose it

    @property
    def tree(self) -> Tree:
        """The expression, of which a function has none."""
        if isinstance(self.proxy, Tree):
            return self.proxy
        raise ProxyError(f"an expression is needed, but {self.proxy.name} is a function")


def load(source: str) -> Loaded:
    """What `source` means; of a run, the proxy that it chose."""
    if source in MEASURES:
        return Loaded(MEASURES[source], citation=MEASURES[source].citation)
    if source in EXPRESSIONS:
        return Loaded(load_expression(source), citation=EXPRESSIONS[source].citation)
    if os.path.isfile(source) or source.endswith(".json"):
        return _of_record(read_proxy(Path(source)))
    if os.path.isdir(source) or os.sep in source:
        run = Path(source)
        record = _of_record(read_proxy(_chosen(run)))
        return replace(record, summary=Run.open(run).read_summary())
    return Loaded(load_expression(source))


def _chosen(run: Path) -> Path:
    if (kind := Run.open(run).kind) not in ("evolve", "rediscover"):
        known = "`autoprox evolve` or `autoprox rediscover`"
        raise RunError(f"a proxy is in a run of {known}, but {run} is one of `autoprox {kind}`")
    file = run / HALL_OF_FAME / "1.json"
    if not file.exists():
        raise RunError(
            f"a run must have ended to have a proxy, but {run} has not: "
            f"`autoprox resume {run}` goes on with it"
        )
    return file


def _of_record(record: Mapping[str, Any]) -> Loaded:
    return Loaded(parse(record["expression"]), found=record["found"], taus=record["taus"])
