"""The JSON schemas: of what the package reads by its own models, and of what commands print."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from autoprox.benchmarks.table import Table
from autoprox.runs.proxy_file import ProxyFile
from autoprox.tasks.configurations import CONFIGURATIONS
from autoprox.tasks.rank import Line
from autoprox.tasks.shared import TaskConfig

from . import documents

FILES: Mapping[str, Any] = {
    "proxy-file": ProxyFile,
    "benchmark-table": Table,
    "architecture": documents.Architecture,
    "rank-log-line": Line,
    "search-candidate": documents.ScoredCandidate,
    "environment": documents.Environment,
}
PRINTED: Mapping[str, Any] = {
    "evolve": documents.Evolve,
    "evolve-spaces": documents.EvolveSpaces,
    "rank": documents.Rank,
    "compare": documents.Compare,
    "search": documents.Search,
    "rediscover": documents.Rediscover,
    "prenas": documents.Prenas,
    "s3": documents.S3,
    "supernet-train": documents.SupernetTrain,
    "supernet-eval": documents.SupernetEval,
    "supernet-extract": documents.SupernetExtract,
    "bench-list": documents.Benchmarks,
    "bench-info": documents.Info,
    "bench-fetch": documents.Fetched,
    "bench-build": documents.Build,
    "dry-run": documents.DryRun,
    "show": documents.Show,
    "show-several": documents.ShowSeveral,
    "show-all": documents.ShowAll,
    "show-operations": documents.ShowOperations,
    "runs": documents.Runs,
    "cache": documents.Cache,
    "doctor": documents.Doctor,
    "score": documents.Score,
    "export-arch": documents.ExportArch,
    "export-proxy": documents.ExportProxy,
    "report": documents.Report,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def all_schemas() -> Iterator[tuple[str, str]]:
    """The name and the text of each schema."""
    for name, schema in schemas().items():
        yield name, json.dumps({"$schema": DIALECT, **schema}, indent=1, ensure_ascii=False) + "\n"


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its name."""
    known = {**FILES, **PRINTED}
    made = {name: TypeAdapter(kind).json_schema() for name, kind in known.items()}
    return made | {f"config-{kind}": of_config(own) for kind, own in CONFIGURATIONS.items()}


def of_config(config: type[TaskConfig]) -> dict[str, Any]:
    """That of a run's config.json: its kind, and every option, resolved."""
    schema = TypeAdapter(config).json_schema(mode="serialization")
    stored = set(config.named(stored=True)) & set(schema["properties"])
    properties = {"kind": {"const": config.kind}}
    for name, _, option in config.described():
        if name in stored:
            properties[name] = {**schema["properties"][name], "description": option.help}
    return {**schema, "properties": properties, "required": list(properties)}
