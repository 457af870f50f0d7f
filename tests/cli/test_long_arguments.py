"""Formulas and architectures may be longer than the name of a file can be."""

import json
from pathlib import Path

import pytest
from helpers.commands import Command

from autoprox.language import parse_expression

NAME_MAX = 255


def test_a_search_takes_a_long_formula(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    formula = "sum(mean(abs(mlp.weight)))"
    while len(formula) <= NAME_MAX:
        formula = f"add({formula}, sum(width))"
    options = ("--samples", "2", "--batch-size", "1", "--name", "long", "--quiet")
    result = run("search", "--space", "autoformer-nano", "--proxy", formula, *options)
    assert result.code == 0, result.err
    [folder] = (tmp_path / "runs").glob("*long")
    proxy = json.loads((folder / "config.json").read_text())["proxy"]
    assert len(proxy) > NAME_MAX
    assert parse_expression(proxy) == parse_expression(formula)


def test_an_export_takes_a_long_architecture(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    choices = {"hidden_dim": 16, "depth": 12, "mlp_ratio": [1.0] * 12, "num_heads": [2] * 12}
    text = json.dumps({"space": "autoformer-nano", "choices": choices}) + " " * NAME_MAX
    result = run("export", "arch", text, "--format", "json", "--out", "net.json")
    assert result.code == 0, result.err
    assert json.loads(Path("net.json").read_text())["choices"]["depth"] == 12
