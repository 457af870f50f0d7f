"""Finds the proxy that a word means: a published name, a run, a proxy file, or an expression."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autoprox.errors import RunError
from autoprox.files.json_documents import Document
from autoprox.files.shell_command import command_line
from autoprox.language import Tree, parse
from autoprox.runs.folder import HALL_OF_FAME, Run
from autoprox.runs.proxy_file import Found, ProxyFile, read_proxy
from autoprox.zoo.expressions import EXPRESSIONS, ProxyError, load_expression
from autoprox.zoo.functions import MEASURES, FunctionProxy

NUMBERED = re.compile(r"(.+):(\d+)")  # a formula of a run


@dataclass(frozen=True)
class Loaded:
    """A tree, which need not be a complete proxy, or a function, and what is known of it."""

    proxy: Tree | FunctionProxy
    citation: str | None = None  # of a published one
    found: Found | None = None  # of a proxy file
    taus: dict[str, dict[str, float | None]] | None = None
    run: Path | None = None  # that chose it

    @property
    def tree(self) -> Tree:
        """The expression, of which a function has none."""
        if isinstance(self.proxy, Tree):
            return self.proxy
        raise ProxyError(f"an expression is needed, but {self.proxy.name} is a function")


def load(source: str) -> Loaded:
    """What `source` means; of a run, the proxy that it chose, of RUN:N its formula N."""
    if source in MEASURES:
        return Loaded(MEASURES[source], citation=MEASURES[source].citation)
    if source in EXPRESSIONS:
        return Loaded(load_expression(source), citation=EXPRESSIONS[source].citation)
    if os.path.isfile(source) or source.endswith(".json"):
        return _of_record(read_proxy(Path(source)))
    if (run := run_of(source)) is not None:
        return _of_run(*run)
    return Loaded(load_expression(source))


def run_of(source: str) -> tuple[Path, int] | None:
    """The folder of a run and the number of the formula that are meant; None if no run is."""
    numbered = NUMBERED.fullmatch(source)
    if numbered and not os.path.isdir(source) and _is_folder(numbered[1]):
        return Path(numbered[1]), int(numbered[2])
    return (Path(source), 1) if _is_folder(source) else None


class NumberedFormula(Document):
    """A formula of a run by its number, with its mean taus."""

    number: int
    size: int
    train: float | None
    test: float | None
    expression: str


def formulas_of(path: Path) -> list[NumberedFormula]:
    """Return a run's formulas, the chosen one first."""
    _require_ended(path)
    files = sorted((path / HALL_OF_FAME).glob("*.json"), key=lambda file: int(file.stem))
    return [_numbered(int(file.stem), read_proxy(file)) for file in files]


def _numbered(number: int, proxy: ProxyFile) -> NumberedFormula:
    return NumberedFormula(
        number=number,
        size=parse(proxy.expression).size,
        train=_mean(proxy.taus.get("train") or proxy.taus.get("evolution")),
        test=_mean(proxy.taus.get("test")),
        expression=proxy.expression,
    )


def _mean(taus: Mapping[str, float | None] | None) -> float | None:
    known = [tau for tau in (taus or {}).values() if tau is not None]
    return sum(known) / len(known) if known else None


def _is_folder(source: str) -> bool:
    return os.path.isdir(source) or os.sep in source


def _of_run(path: Path, number: int) -> Loaded:
    _require_ended(path)
    file = path / HALL_OF_FAME / f"{number}.json"
    if not file.exists():
        count = len(list(file.parent.glob("*.json")))
        raise RunError(f"{path} has the formulas 1 to {count}, but got {path}:{number}")
    record = _of_record(read_proxy(file))
    return replace(record, run=path if number == 1 else None)


def _require_ended(run: Path) -> None:
    if (kind := Run.open(run).kind) not in ("evolve", "rediscover"):
        known = "`autoprox evolve` or `autoprox rediscover`"
        raise RunError(f"a proxy is in a run of {known}, but {run} is one of `autoprox {kind}`")
    if not (run / HALL_OF_FAME / "1.json").exists():
        raise RunError(
            f"a run must have ended to have a proxy, but {run} has not: "
            f"`{command_line('resume', run)}` goes on with it"
        )


def _of_record(proxy: ProxyFile) -> Loaded:
    return Loaded(parse(proxy.expression), found=proxy.found, taus=proxy.taus)
