"""What the Python functions return: what a run found, as an object of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprox.files.data_frames import to_frame

if TYPE_CHECKING:
    import pandas

    from autoprox.language import Tree


class Result:
    """A run's summary, the document that `--json` prints, and where the run is."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self._summary = dict(summary)

    @property
    def run(self) -> Path:
        """The run's folder."""
        return Path(self._summary["run"])

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(self._summary["seconds"])

    def to_dict(self) -> dict[str, Any]:
        """The summary."""
        return dict(self._summary)

    def rows(self) -> list[dict[str, Any]]:
        """The figures as a table."""
        return [self.to_dict()]

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a data frame; pandas must be installed."""
        return to_frame(self.rows())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run}>"

    def _repr_html_(self) -> str:
        from autoprox.runs.folder import Run  # with torch, which takes seconds to import
        from autoprox.runs.loading import facts_html
        from autoprox.runs.overview import overview

        return facts_html(overview(Run.open(self.run)))

    def _repr_latex_(self) -> str | None:
        from autoprox.runs.loading import formula_latex  # with torch, as above

        return formula_latex(self._summary)


class EvolveResult(Result):
    """The proxy that was found, and what it is worth beside the baselines."""

    @property
    def expression(self) -> str:
        """The proxy's text."""
        return str(self._summary["expression"])

    @property
    def proxy(self) -> Tree:
        """The proxy."""
        from autoprox.language import parse  # with torch, which takes seconds to import

        return parse(self.expression)

    @property
    def test(self) -> dict[str, Any]:
        """By dataset, its correlations on the networks that it was not evolved on."""
        return dict(self._tables()["test"])

    @property
    def train(self) -> dict[str, Any]:
        """By dataset, its correlations on the networks that it was evolved on."""
        return dict(self._tables()["train"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each part of the split, dataset, and proxy or baseline."""
        tables = self._tables()
        scored = {"proxy": tables, **tables["baselines"]}
        return [
            {"part": part, "dataset": dataset, "scored_by": name, **figures}
            for part in ("test", "train")
            for name, own in scored.items()
            for dataset, figures in own[part].items()
        ]

    def _tables(self) -> dict[str, Any]:
        """Those of both parts and of the baselines; of several spaces by `space/dataset`."""
        if "folds" not in self._summary:
            return self._summary
        found: dict[str, Any] = {"train": {}, "test": {}, "baselines": {}}
        for fold in self._summary["folds"]:
            for space, own in fold["spaces"].items():
                for name in own["baselines"]:
                    found["baselines"].setdefault(name, {"train": {}, "test": {}})
                known = ("test",) if space == fold["held_out"] else ("train", "test")
                pairs = [(found, own)]
                pairs += [(found["baselines"][n], t) for n, t in own["baselines"].items()]
                for joined, tables in pairs:
                    for part in known:
                        rows = {f"{space}/{d}": row for d, row in tables[part].items()}
                        joined[part].update(rows)
        return found


class RankResult(Result):
    """How well each proxy ranks."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each proxy and dataset, the best of a dataset first."""
        return [dict(row) for row in self._summary["rows"]]


class CompareResult(RankResult):
    """How well discoveries rank the networks that none of them has seen."""

    @property
    def between(self) -> dict[str, dict[str, float | None]]:
        """The tau of each proxy's scores with each other's, means over the datasets."""
        return dict(self._summary["between"])


class SearchResult(Result):
    """The best architectures."""

    @property
    def best(self) -> dict[str, Any]:
        """The best one: its choices, sizes and score."""
        return dict(self._summary["best"])

    @property
    def top(self) -> Sequence[dict[str, Any]]:
        """The best ones, best first."""
        return list(self._summary["top"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each of the best, with a column for each choice."""
        return [{**entry["arch"], **_without(entry, "arch")} for entry in self.top]


class RediscoverResult(Result):
    """The formula that was found, and the evidence."""

    @property
    def success(self) -> bool:
        """Whether it is the proxy that was looked for."""
        return bool(self._summary["success"])

    @property
    def expression(self) -> str:
        """The formula; without success, the one that correlates best."""
        return str(self._summary["expression"])


class BuildResult(Result):
    """The table that was built."""

    @property
    def file(self) -> Path:
        """Where it is."""
        return Path(self._summary["file"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each dataset: the range of the scores, and how far they can be trusted."""
        return [{"dataset": name, **row} for name, row in self._summary["datasets"].items()]


class SupernetResult(Result):
    """The supernet that was trained."""

    @property
    def weights(self) -> Path:
        """Where they are."""
        return Path(self._summary["weights"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each subnet that was evaluated, with a column for each choice."""
        return [{**entry["arch"], **_without(entry, "arch")} for entry in self._summary["subnets"]]


class SupernetTableResult(Result):
    """The table of inherited accuracies."""

    @property
    def file(self) -> Path:
        """Where it is."""
        return Path(self._summary["file"])


class PrenasResult(Result):
    """The preferred architectures."""

    @property
    def preferred(self) -> Sequence[dict[str, Any]]:
        """Each one: its choices, sizes and scores."""
        return list(self._summary["preferred"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each, with a column for each choice."""
        return [{**entry["arch"], **_without(entry, "arch")} for entry in self.preferred]


class S3Result(Result):
    """The spaces of all rounds, and the best network of the last."""

    @property
    def best(self) -> dict[str, Any]:
        """Its choices, sizes and accuracy with inherited weights."""
        return dict(self._summary["best"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each space: its errors."""
        return [_without(row, "options", "dropped") for row in self._summary["rounds"]]


RESULTS: Mapping[str, type[Result]] = {
    "evolve": EvolveResult,
    "rank": RankResult,
    "compare": CompareResult,
    "search": SearchResult,
    "rediscover": RediscoverResult,
    "build": BuildResult,
    "supernet-train": SupernetResult,
    "supernet-eval": SupernetTableResult,
    "prenas": PrenasResult,
    "s3": S3Result,
}


def _without(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in names}
