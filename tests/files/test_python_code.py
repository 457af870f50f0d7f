"""Functions named as MODULE:FUNCTION."""

import math
import sys
from pathlib import Path

import pytest

from autoprox.errors import MeasurementError
from autoprox.files.function_import_and_digest import load_function


def test_a_function_of_an_installed_module() -> None:
    assert load_function("math:sqrt", "an evaluator", MeasurementError) is math.sqrt


def test_a_function_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_references.py").write_text("def seven():\n    return 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load_function("own_references:seven", "a teacher", MeasurementError)() == 7


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no_such_module:f", "'no_such_module:f' gives ModuleNotFoundError: No module named"),
        ("math:root", "'math:root' gives AttributeError"),
        ("math", "'math' gives AttributeError"),
        (":f", "':f' gives ValueError: Empty module name"),
        ("math:pi", "'math:pi' is 3.14"),
    ],
)
def test_what_is_no_function_is_refused(reference: str, reason: str) -> None:
    rule = r"^an evaluator must be a function given as MODULE:FUNCTION, but "
    with pytest.raises(MeasurementError, match=rule + reason):
        load_function(reference, "an evaluator", MeasurementError)
