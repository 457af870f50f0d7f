"""The JSON schemas: of what the package reads by its own models, and of what commands print."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from autoprox.benchmarks.growing_table import ResultDocument, SuggestionDocument
from autoprox.benchmarks.info_documents import BenchmarkInfo, FetchedFile
from autoprox.benchmarks.user_table import BenchmarkTable
from autoprox.cli.show_commands import WrittenReport
from autoprox.commands.build_benchmark import BuildSummary
from autoprox.commands.cache import ClearedCache
from autoprox.commands.compare import CompareSummary
from autoprox.commands.curve import CurveSummary
from autoprox.commands.doctor import MachineFacts
from autoprox.commands.evolve import EvolveSummary
from autoprox.commands.export_network import ExportedArchitecture, ExportedProxy
from autoprox.commands.prenas import PrenasSummary
from autoprox.commands.rank import RankLogLine, RankSummary
from autoprox.commands.rediscover import RediscoverSummary
from autoprox.commands.s3_space_search import S3Summary
from autoprox.commands.score import ModelScores
from autoprox.commands.search import CandidateLine, SearchSummary
from autoprox.commands.suggest import Suggestions
from autoprox.commands.supernet import ExtractedSubnet, SupernetEvalSummary, SupernetTrainSummary
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import TaskConfig
from autoprox.evaluation.time_estimate import DryRun
from autoprox.loaded_runs import Overview
from autoprox.report.terminal.operations_report import OperationDetails
from autoprox.report.terminal.proxy_report import ExpressionDetails, FunctionDetails, ProxyGlance
from autoprox.runs.folder import FORMAT, RunEnvironment
from autoprox.runs.predictor_file import PredictorFile
from autoprox.runs.proxy_file import ProxyFile
from autoprox.runs.summary import ArchitectureDocument
from autoprox.zoo.proxy_loading import NumberedFormula

FILES: Mapping[str, Any] = {
    "proxy-file": ProxyFile,
    "predictor-file": PredictorFile,
    "benchmark-table": BenchmarkTable,
    "architecture": ArchitectureDocument,
    "suggestions": list[SuggestionDocument],
    "results": list[ResultDocument],
    "rank-log-line": RankLogLine,
    "search-candidate": CandidateLine,
    "environment": RunEnvironment,
}
PRINTED: Mapping[str, Any] = {
    "evolve": EvolveSummary,
    "rank": RankSummary,
    "compare": CompareSummary,
    "curve": CurveSummary,
    "search": SearchSummary,
    "suggest": Suggestions,
    "rediscover": RediscoverSummary,
    "prenas": PrenasSummary,
    "s3": S3Summary,
    "supernet-train": SupernetTrainSummary,
    "supernet-eval": SupernetEvalSummary,
    "supernet-extract": ExtractedSubnet,
    "bench-list": list[BenchmarkInfo],
    "bench-info": BenchmarkInfo,
    "bench-fetch": list[FetchedFile],
    "bench-build": BuildSummary,
    "dry-run": DryRun,
    "show": ExpressionDetails | FunctionDetails,
    "show-several": list[ProxyGlance],
    "show-all": list[NumberedFormula],
    "show-operations": list[OperationDetails],
    "runs": list[Overview],
    "cache": ClearedCache,
    "doctor": MachineFacts,
    "score": ModelScores,
    "export-arch": ExportedArchitecture,
    "export-proxy": ExportedProxy,
    "report": WrittenReport,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def all_schemas() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each schema."""
    for name, schema in schemas().items():
        yield name, json.dumps({"$schema": DIALECT, **schema}, indent=1, ensure_ascii=False) + "\n"


def schemas() -> dict[str, dict[str, Any]]:
    """Return every schema by its name."""
    read = {name: TypeAdapter(kind).json_schema() for name, kind in FILES.items()}
    printed = {
        name: TypeAdapter(kind).json_schema(mode="serialization") for name, kind in PRINTED.items()
    }
    return {**read, **printed} | {
        f"config-{kind}": of_config(own) for kind, own in CONFIGURATIONS.items()
    }


def of_config(config: type[TaskConfig]) -> dict[str, Any]:
    """Return the schema of a run's config.json: its format, its kind, and every option."""
    schema = TypeAdapter(config).json_schema(mode="serialization")
    stored = set(config.named(stored=True)) & set(schema["properties"])
    properties = {"format": {"const": FORMAT}, "kind": {"const": config.kind}}
    for name, _, option in config.described():
        if name in stored:
            properties[name] = {**schema["properties"][name], "description": option.help}
    return {**schema, "properties": properties, "required": list(properties)}
