"""Loads a proxy by a published name, a run, a proxy file, or an expression."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoprox.errors import RunError
from autoprox.files.json_documents import JSONDocument
from autoprox.files.rerun_command import rerun_command_line
from autoprox.language import Tree, parse_expression
from autoprox.runs.folder import COMMITTEE, HALL_OF_FAME, PREDICTOR, Run
from autoprox.runs.predictor_file import read_predictor
from autoprox.runs.proxy_file import Found, read_proxy
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, ProxyError, parse_with_zoo_names
from autoprox.zoo.functions import (
    FUNCTION_PROXIES,
    RANK_COMBINATIONS,
    FunctionProxy,
    RankCombination,
)
from autoprox.zoo.predictor import Predictor

NUMBERED = re.compile(rf"(.+):(\d+|{COMMITTEE}|{PREDICTOR})")  # a formula of a run


@dataclass(frozen=True)
class LoadedProxy:
    """A tree, which need not be a complete proxy, or a proxy that has none."""

    proxy: Tree | FunctionProxy | RankCombination | Predictor
    citation: str | None = None  # of a published one
    found: Found | None = None  # of a proxy file
    taus: dict[str, dict[str, float | None]] | None = None
    run: Path | None = None  # that chose it

    @property
    def text(self) -> str:
        """A proxy of the same meaning that needs no file; a predictor's is that of its run."""
        if isinstance(self.proxy, Predictor):
            return self.proxy.name
        return str(self.tree)

    @property
    def tree(self) -> Tree:
        """The expression; a function and a combination have none, which is an error."""
        if isinstance(self.proxy, Tree):
            return self.proxy
        kind = (
            "is a function of a space's networks: `rank`, `search`, `compare` and `evolve --zoo` "
            "take it"
        )
        if isinstance(self.proxy, RankCombination):
            kind = "compares networks by their ranks: `rank` and `evolve --zoo` measure it"
        if isinstance(self.proxy, Predictor):
            kind = "ranks the architectures of a space: `rank`, `search` and `compare` take it"
        raise ProxyError(f"an expression is needed, but {self.proxy.name} {kind}")


def resolve_proxy(source: str) -> LoadedProxy:
    """Load a proxy by its name, file or text; what a run chose, or another proxy of the run."""
    if (own := FUNCTION_PROXIES.get(source) or RANK_COMBINATIONS.get(source)) is not None:
        return LoadedProxy(own, citation=own.citation)
    if source in EXPRESSION_PROXIES:
        return LoadedProxy(
            parse_with_zoo_names(source), citation=EXPRESSION_PROXIES[source].citation
        )
    if os.path.isfile(source) or source.endswith(".json"):
        return _from_file(Path(source))
    if (run := find_run(source)) is None:
        return LoadedProxy(parse_with_zoo_names(source))
    path, name = run
    _require_ended(path)
    file = path / HALL_OF_FAME / f"{name}.json"
    if name == PREDICTOR:
        return _predictor(path, file)
    if not file.exists():
        numbers = sorted(
            int(own.stem) for own in file.parent.glob("*.json") if own.stem.isdecimal()
        )
        rule = f"{path} has the formulas 1 to {numbers[-1]}"
        no_committee = " and no committee" if name == COMMITTEE else ""
        raise RunError(f"{rule}{no_committee}, but got {path}:{name}")
    return replace(_from_file(file), run=path if name == "1" else None)


def find_run(source: str) -> tuple[Path, str] | None:
    """Return a run's folder and the name of its proxy's file; None if it is no run."""
    named = NUMBERED.fullmatch(source)
    if named and not os.path.isdir(source) and _is_folder(named[1]):
        return Path(named[1]), str(int(named[2])) if named[2].isdecimal() else named[2]
    return (Path(source), "1") if _is_folder(source) else None


class NumberedFormula(JSONDocument):
    """A formula of a run by its number, with its mean taus."""

    number: int
    size: int
    train: float | None
    test: float | None
    expression: str


def run_formulas(path: Path) -> list[NumberedFormula]:
    """Return a run's formulas, the chosen one first."""
    _require_ended(path)
    rows = []
    files = [file for file in (path / HALL_OF_FAME).glob("*.json") if file.stem.isdecimal()]
    for file in sorted(files, key=lambda file: int(file.stem)):
        proxy = read_proxy(file)
        rows.append(
            NumberedFormula(
                number=int(file.stem),
                size=parse_expression(proxy.expression).size,
                train=_mean(proxy.taus.get("train") or proxy.taus.get("evolution")),
                test=_mean(proxy.taus.get("test")),
                expression=proxy.expression,
            )
        )
    return rows


def _mean(taus: Mapping[str, float | None] | None) -> float | None:
    known = [tau for tau in (taus or {}).values() if tau is not None]
    return sum(known) / len(known) if known else None


def _is_folder(source: str) -> bool:
    return os.path.isdir(source) or os.sep in source


def _require_ended(run: Path) -> None:
    if (kind := Run.open(run).kind) not in ("evolve", "rediscover"):
        known = "`autoprox evolve` or `autoprox rediscover`"
        rule = f"a proxy is in a run of {known}, but {run} is one of `autoprox {kind}`"
        raise RunError(f"{rule}: `{rerun_command_line('report', run)}` writes its report")
    if not (run / HALL_OF_FAME / "1.json").exists():
        raise RunError(
            f"a run must have ended to have a proxy, but {run} has not: "
            f"`{rerun_command_line('resume', run)}` continues it"
        )


def _predictor(run: Path, file: Path) -> LoadedProxy:
    if not file.exists():
        rule = "a predictor is in runs of `autoprox evolve` on one space, since version 0.3"
        raise RunError(f"{rule}, but {run} has none")
    found = read_predictor(file)
    return LoadedProxy(Predictor(found, f"{run.absolute()}:{PREDICTOR}"), found=found.found)


def _from_file(path: Path) -> LoadedProxy:
    proxy = read_proxy(path)
    return LoadedProxy(parse_expression(proxy.expression), found=proxy.found, taus=proxy.taus)
