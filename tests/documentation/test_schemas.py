"""What every command prints, and every file that it writes, is as its schema says."""

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import called
from helpers.furnished import furnish
from jsonschema import Draft202012Validator
from pages.commands import all_commands
from pages.schemas import FILES, PRINTED, schemas

from autoprox.runs.folder import PREDICTOR

SMALL = (
    "--iterations=1 --population=4 --children=2 --statistics=mlp.weight --batch-size=1 --train=0.5"
)
COMMANDS = {  # by schema; RUN[name] is the run of the command of that schema
    "evolve": f"evolve --benchmark=my-vits.json --zoo=snip {SMALL}",
    "dry-run": "search --space=autoformer-nano --proxy=snip --samples=2 --dry-run",
    "rank": "rank --benchmark=my-vits.json --proxies=snip,params --published --batch-size=1",
    "curve": "curve --benchmark=my-vits.json --zoo=snip --population=8 --draws=2 --labels=0,5 "
    "--batch-size=1",
    "compare": "compare RUN[evolve] snip --batch-size=1",
    "search": "search --space=autoformer-nano --proxy=snip --samples=3 --batch-size=1",
    "suggest": "suggest --table=mine.json --space=autoformer-nano --datasets=photos --classes=10 "
    "--proxy=snip --samples=6",
    "rediscover": "rediscover sum(width) --seconds=0.1",
    "bench-list": "bench list",
    "bench-info": "bench info nano-bench",
    "bench-fetch": "bench fetch nano-bench",
    "bench-build": "bench build --space=autoformer-nano --images=photos.npz --out=t.json "
    "--samples=10 --seeds=1 --epochs=1 --workers=1",
    "supernet-train": "supernet train --space=autoformer-nano --images=photos.npz --epochs=1",
    "supernet-eval": "supernet eval RUN[supernet-train] --samples=10",
    "supernet-extract": "supernet extract RUN[supernet-train] --arch=best.json --out=a.safetensors",
    "prenas": "prenas --space=autoformer-nano --noise=2 --sizes=20K:40K:20K",
    "s3": "s3 --space=swin-nano --images=photos.npz --epochs=1 --batch-size=16 --samples=4 "
    "--top-tier=2 --threshold=5 --flops=:4M --rounds=1 --population=4 --generations=1 --parents=2 "
    "--workers=1",
    "show": "show RUN[evolve]",
    "show-all": "show RUN[evolve] --all",
    "show-several": "show RUN[evolve] RUN[rank] snip naswot",
    "show-operations": "show --operations",
    "runs": "runs",
    "report": "report RUN[evolve] --format=md",
    "export-arch": "export arch RUN[search] --format=torch --out=net",
    "export-proxy": "export proxy snip",
    "score": "score --proxy=snip --model=mine:model --compare=mine:model",
    "doctor": "doctor",
    "cache": "cache",
}
MORE = {  # other documents of the same schemas
    "suggest --table=mine.json --add=results.json": "suggest",
    "evolve --spaces=my-vits.json,others.json --hold-out=each --no-halving "
    f"--zoo=none {SMALL}": "evolve",
    "show snip": "show",
    "show naswot": "show",
    "export arch best.json --format=json": "export-arch",
    "resume RUN[evolve]": "evolve",
    "search --space=autoformer-nano --proxy=sum(width) --evaluator=judge:value --samples=3": (
        "search"
    ),
}

VALIDATORS = {name: Draft202012Validator(schema) for name, schema in schemas().items()}
CONFIGS = {name for name in VALIDATORS if name.startswith("config-")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all commands run, one after the other."""
    path = tmp_path_factory.mktemp("documents")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path / "cache"))
        patch.chdir(path)
        patch.syspath_prepend(path)
        patch.delitem(sys.modules, "mine", raising=False)  # of another test
        furnish(path)
        result = {**json.loads((path / "best.json").read_text()), "scores": {"photos": 78.3}}
        (path / "results.json").write_text(json.dumps([result]))
        others = json.loads((path / "my-vits.json").read_text())
        others["architectures"] = others["architectures"][:20]
        (path / "others.json").write_text(json.dumps({**others, "name": "others"}))
        (path / "judge.py").write_text(
            "def value(architecture):\n    return architecture['choices']['depth']\n"
        )
        yield path


@pytest.fixture(scope="module")
def documents(folder: Path) -> dict[str, tuple[str, Any]]:
    """By command: the name of its schema, and what it printed."""
    found: dict[str, tuple[str, Any]] = {}
    runs: dict[str, str] = {}
    pairs = [*((command, schema) for schema, command in COMMANDS.items()), *MORE.items()]
    for command, schema in pairs:
        words = command
        for name, run in runs.items():
            words = words.replace(f"RUN[{name}]", run)
        result = called(*words.split(), "--json")
        assert result.out, f"{command}: {result.err}"
        assert result.code == 0 or result.json["success"] is False, f"{command}: {result.err}"
        found[command] = (schema, result.json)
        if isinstance(result.json, dict) and "run" in result.json:
            runs.setdefault(schema, result.json["run"])
    return found


def test_documents_and_files_are_as_their_schemas_say(
    documents: dict[str, tuple[str, Any]], folder: Path
) -> None:
    """One test, for a second one would let another process run all commands again."""
    for command, (schema, document) in documents.items():
        errors = [*VALIDATORS[schema].iter_errors(document)]
        told = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in errors]
        assert told == [], f"autoprox {command}: see its model in docs/pages/schemas.py"
    assert {schema for _, _, schema in checked(folder)} == {*FILES, *CONFIGS}
    for file, text, schema in checked(folder):
        errors = [*VALIDATORS[schema].iter_errors(json.loads(text))]
        assert errors == [], f"{file} isn't {schema}"
    _, document = documents[COMMANDS["search"]]
    for wrong in ({**document, "extra": 1}, {**document, "evaluations": "3"}, {}):
        assert [*VALIDATORS["search"].iter_errors(wrong)] != []


def checked(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """The files that the commands left, their texts, and the schemas that these must keep."""
    for run in sorted((folder / "runs").iterdir()):
        kind = json.loads((run / "config.json").read_text())["kind"]
        yield run / "config.json", (run / "config.json").read_text(), f"config-{kind}"
        yield run / "environment.json", (run / "environment.json").read_text(), "environment"
        for file in run.glob("hall_of_fame/*.json"):
            schema = "predictor-file" if file.stem == PREDICTOR else "proxy-file"
            yield file, file.read_text(), schema
        lines = {"candidates.jsonl": "search-candidate"}
        lines |= {"log.jsonl": "rank-log-line"} if kind == "rank" else {}
        for name, schema in lines.items():
            for file in run.glob(name):
                yield from ((file, line, schema) for line in file.read_text().splitlines())
    for name, schema in (
        ("t.json", "benchmark-table"),
        ("mine.json", "benchmark-table"),
        ("mine-next.json", "suggestions"),
        ("results.json", "results"),
        ("net/architecture.json", "architecture"),
    ):
        yield folder / name, (folder / name).read_text(), schema


def test_every_command_has_a_document() -> None:
    """With `--json`; and every schema of a document is that of some command."""
    assert set(COMMANDS) == set(PRINTED)
    lines = [*COMMANDS.values(), *MORE]
    for name, command in all_commands().items():
        assert any(line.startswith(f"{name} ") or line == name for line in lines), name
        assert "json" in inspect.signature(command.function).parameters, name
