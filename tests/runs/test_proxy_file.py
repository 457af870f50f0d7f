"""Proxy files: written and read back, and one file broken on purpose for each rule."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.records import SNIP, proxy_record, record

from autoprox.files.json_documents import JSONFileError
from autoprox.language import LanguageError, parse_expression, tree_digest
from autoprox.runs.proxy_file import ProxyRecord, read_proxy, write_proxy


def broken(tmp_path: Path, **changes: Any) -> Path:
    """A good file in which some top-level fields are replaced, or left out where None."""
    path = tmp_path / "proxy.json"
    write_proxy(path, proxy_record())
    fields = json.loads(path.read_text()) | changes
    kept = {name: value for name, value in fields.items() if value is not None}
    path.write_text(json.dumps(kept, indent=2))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "proxy.json"
    write_proxy(path, proxy_record(expression="sum(sum(abs(mul(data.all.weight,all.grad))))"))
    expected = {"version": 1, "hash": tree_digest(parse_expression(SNIP))} | record()
    assert read_proxy(path).model_dump() == json.loads(path.read_text()) == expected


def test_a_record_that_was_read_can_be_written_again(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    write_proxy(first, proxy_record())
    found = read_proxy(first)
    write_proxy(second, ProxyRecord(found.expression, found.formula, found.found, found.taus))
    assert first.read_bytes() == second.read_bytes()


def test_only_a_complete_proxy_is_written(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match=r"a proxy is a Network, got Layers\[all\]"):
        write_proxy(tmp_path / "proxy.json", proxy_record(expression="sum(all.weight)"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, r"proxy.json:2: version must be at most 1 .* upgrade .*, but got 2"),
        ({"version": "1"}, r"proxy.json:2: version must be an integer"),
        ({"version": None}, r"must have the key version"),
        ({"hash": None}, r"must have the key hash"),
        ({"hash": "0" * 64}, r"proxy.json:4: hash must be the expression's, [0-9a-f]{64}, but got"),
        ({"expression": "sum(sum(mlp.wait))"}, r"proxy.json:3: expression: .*`mlp.weight`"),
        ({"expression": "sum(mlp.weight)"}, r"proxy.json:3: expression: a proxy is a Network"),
        ({"expression": ["sum"]}, r"proxy.json:3: expression must be a string, but got an array"),
        ({"formula": 3}, r"formula must be a string"),
        ({"found": {}}, r"found must have the key run"),
        ({"found": record()["found"] | {"seed": -1}}, r"found.seed must be an integer from 0"),
        ({"found": record()["found"] | {"datasets": [1]}}, r"found.datasets\[0\] must be a string"),
        ({"taus": {"test": {"flowers": 1.5}}}, r"taus.test.flowers must be at most 1 in size"),
        ({"taus": {"test": {"flowers": "0.5"}}}, r"taus.test.flowers must be a finite number"),
        ({"taus": {"test": 0.5}}, r"taus.test must be an object"),
        ({"tau": {}}, r"unknown key tau \(did you mean taus\?\)"),
    ],
)
def test_a_broken_file_is_named_with_its_field(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(JSONFileError, match=message):
        read_proxy(broken(tmp_path, **changes))


def test_a_newer_file_is_told_apart_from_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "proxy.json"
    path.write_text('{"version": 9, "program": "sum"}')
    with pytest.raises(JSONFileError, match="must be at most 1 for this autoprox"):
        read_proxy(path)
