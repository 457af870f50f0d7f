"""What is printed of a stranger's files: nothing that a terminal would obey, on one line."""

import json
import warnings
from importlib.metadata import EntryPoint

import pytest

from autoprox import registry
from autoprox.errors import AutoproxError, ellipsized_line
from autoprox.report.terminal.layout import new_table, show, show_json

OBEYED = "\x1b[31m\x9b2J\u202egnp\x7f"


def test_a_json_document_is_the_same_with_escape_sequences_spelt_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {OBEYED: [OBEYED, "τ", "\U000e0001"]}
    show_json(document)
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "τ" in out
    assert json.loads(out) == document


def test_headings_and_cells(capsys: pytest.CaptureFixture[str]) -> None:
    table = new_table(OBEYED)
    table.add_column(OBEYED)
    table.add_row(OBEYED, OBEYED)
    show(table)
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_an_error_is_one_line_of_bounded_length() -> None:
    line = ellipsized_line("rule\n" + OBEYED + "x" * 10**6 + "end")
    assert line.isprintable()
    assert len(line) < 2200
    assert line.startswith("rule\\n\\x1b[31m")
    assert line.endswith("end")


def test_the_name_of_an_installed_package_s_item(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(OBEYED, "no_such_module:thing", "autoprox.things")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    things = registry.Registry[object]("things", "thing", AutoproxError)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not list(things)
    [warning] = told
    assert str(warning.message).isprintable()
    assert "no_such_module" in str(warning.message)
