"""Lines of JSON: what is written is read, and what a kill or a hand left is cut off or named."""

from pathlib import Path

import pytest

from autoprox.files.json_documents import JSONFileError
from autoprox.files.json_lines import JSONLinesFile, ReplayJournal


def test_lines_are_read_as_written(tmp_path: Path) -> None:
    file = JSONLinesFile(tmp_path / "log.jsonl")
    assert file.read() == []
    for number in range(3):
        file.append({"größe": number})
    assert file.path.read_text(encoding="utf-8").splitlines()[1] == '{"größe": 1}'
    assert file.read() == [{"größe": 0}, {"größe": 1}, {"größe": 2}]


def test_truncate_cuts_what_is_beyond_and_what_is_unfinished(tmp_path: Path) -> None:
    file = JSONLinesFile(tmp_path / "log.jsonl")
    file.path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": ')
    assert file.read() == [{"a": 1}, {"a": 2}]
    file.truncate(2)
    assert file.path.read_bytes() == b'{"a": 1}\n{"a": 2}\n'
    file.truncate(1)
    file.append({"a": 3})
    assert file.path.read_bytes() == b'{"a": 1}\n{"a": 3}\n'
    with pytest.raises(JSONFileError, match=r"log\.jsonl must have 3 lines, but has 2$"):
        file.truncate(3)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('{"a": ', "must be JSON, but Expecting value"),
        ("[1]", r"must be an object, but is \[1\]"),
        ("", "must be JSON, but"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, rule: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{{}}\n{line}\n{{}}\n")
    with pytest.raises(JSONFileError, match=rf"log\.jsonl:2 {rule}"):
        JSONLinesFile(path).read()
    with pytest.raises(JSONFileError, match=r"log\.jsonl:2:1: the file must be "):
        ReplayJournal(path)


def test_a_record_is_read_to_its_end_and_then_written(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"unfin')
    record = ReplayJournal(path)
    assert [record.next(), record.next(), record.next()] == [{"a": 1}, {"a": 2}, None]
    record.append({"a": 3})
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2}\n{"a": 3}\n'
    assert str(record.error("must be better")) == f"{path}:2 must be better"


def test_a_record_without_a_file_keeps_nothing(tmp_path: Path) -> None:
    record = ReplayJournal()
    record.append({"a": 1})
    assert record.next() is None
    with pytest.raises(RuntimeError, match="without a file"):
        record.error("must be")
