"""The JSON reader: equal to `json`, and every error with its line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoprox.files.json_documents import JSONFileError, JSONNode, read_json


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.json"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"file\.json:1: the file must be complete JSON .*, but got the end of the file"),
        ('{"a": 1,\n\n "b": [1, 2', r"file\.json:3: .*',' or '\]' here, but got the end"),
        ('{"a": 1,\n "b": "x', r"file\.json:2: .*complete JSON .*, but got the end of the file"),
        ('{"a": 1,\n "a": 2}', r"file\.json:2: the file must have the key a once: line 1 has it"),
        ('{"a": 1}\n{', r"file\.json:2: the file must end after its first value, but got '\{'"),
        ("{a: 1}", r"file\.json:1: the file must have a key in double quotes here, but got 'a'"),
        ('{"a" 1}', r"file\.json:1: the file must have ':' here, but got '1'"),
        ("[1,]", r"file\.json:1: the file must be complete JSON .*, but got '\]'"),
        ("[\n" * 40, r"file\.json:34: the file must nest at most 32 deep, but got"),
        ("[" * 100_000, r"file\.json:1: the file must nest at most 32 deep"),
    ],
)
def test_broken_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(JSONFileError, match=message) as caught:
        read_json(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_file_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(JSONFileError, match=r"must be a JSON file, but is a directory"):
        read_json(tmp_path)
    with pytest.raises(JSONFileError, match=r"must be a JSON file, but there is no such file"):
        read_json(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(JSONFileError, match=r"binary\.json must be UTF-8 text, but byte 7 is not"):
        read_json(tmp_path / "binary.json")
    (tmp_path / "marked.json").write_text("[1]", encoding="utf-8-sig")
    assert read_json(tmp_path / "marked.json").plain() == [1]


def test_every_value_knows_its_line_and_path(tmp_path: Path) -> None:
    text = '{"a":\r\n [\n1,\n\n{"b": null}],\n"c": "\\n"}'
    found = []

    def walk(node: JSONNode) -> None:
        found.append((node.path, node.line))
        children = node.value.values() if isinstance(node.value, dict) else node.value
        for child in children if isinstance(node.value, dict | list) else ():
            walk(child)

    walk(read_json(written(tmp_path, text)))
    assert found == [("", 1), ("a", 2), ("a[0]", 3), ("a[1]", 5), ("a[1].b", 5), ("c", 6)]


def test_every_truncation_is_an_error_with_a_line(tmp_path: Path) -> None:
    text = '{"a": [1.5, -2e3, true, null],\n "b\\u00e9": {"c": "d\\"e"},\n "f": []}'
    for length in range(len(text)):
        with pytest.raises(JSONFileError, match=r"file\.json:[1-3]: the file must "):
            read_json(written(tmp_path, text[:length]))


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(documents, st.sampled_from([None, 1]), st.booleans())
def test_reader_agrees_with_json(
    tmp_path_factory: pytest.TempPathFactory, document: Any, indent: int | None, escape: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "document.json"
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=escape), encoding="utf-8")
    assert read_json(path).plain() == json.loads(path.read_text(encoding="utf-8"))
