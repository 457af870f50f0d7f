"""Strict JSON, and files that are whole or not there."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.disks import full_disk

from autoprox.files.atomic_writes import atomic_file, to_json, write_json, write_text


def test_numpy_values_tuples_and_paths_become_plain() -> None:
    value = {
        "scalars": (np.float32(0.5), np.int64(3), np.bool_(True), np.float64(1.5)),
        "array": np.arange(4).reshape(2, 2),
        "path": Path("a/b"),
    }
    assert json.loads(to_json(value)) == {
        "scalars": [0.5, 3, True, 1.5],
        "array": [[0, 1], [2, 3]],
        "path": "a/b",
    }


@pytest.mark.parametrize("value", [math.nan, np.float32(np.inf), [np.array([np.nan])]])
def test_numbers_that_json_lacks_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(value)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="no JSON form for a set"):
        to_json({"a": {1, 2}})


def test_a_file_is_replaced_and_readable_by_people(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"old": 1})
    write_json(path, {"größe": [1]})
    assert path.read_text(encoding="utf-8") == '{\n  "größe": [\n    1\n  ]\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "value"
    write_text(path, "old")
    with full_disk(room=1000), pytest.raises(OSError, match="File too large"):
        write_text(path, "new" * 1000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "value"
    with atomic_file(path) as file:
        file.write(b"one, ")
        assert not path.exists()
        file.write(b"two")
    assert path.read_bytes() == b"one, two"
    with pytest.raises(TypeError, match="bytes-like"), atomic_file(path) as file:
        file.write("three")  # type: ignore[arg-type]
    assert path.read_bytes() == b"one, two"
    assert list(tmp_path.iterdir()) == [path]
