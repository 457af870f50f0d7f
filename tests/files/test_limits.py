"""Files that are too large, too deep, or no files at all."""

import os
import resource
from pathlib import Path

import pytest

from autoprox.files import json_lines
from autoprox.files.json_documents import JSONFileError, parse_json
from autoprox.files.json_lines import JSONLinesFile


def test_a_long_key_isn_t_kept_for_each_value_below_it() -> None:
    """10,000 values below a key of 100,000 characters: a gigabyte if each had its path."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    document = parse_json(f'{{"{"k" * 10**5}": [{"1," * 10**4}1]}}'.encode(), "f")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17  # KiB
    assert document.at("k" * 10**5, 7).path == f"{'k' * 10**5}[7]"


def test_lines_of_what_isn_t_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(JSONFileError, match=r"log\.jsonl must be a file of at most \d+ bytes$"):
        JSONLinesFile(tmp_path / "log.jsonl").read()
    monkeypatch.setattr(json_lines, "LARGEST_LOG", 3)
    (tmp_path / "long.jsonl").write_text("{}\n{}\n")
    with pytest.raises(JSONFileError, match=r"long\.jsonl must be a file of at most 3 bytes$"):
        JSONLinesFile(tmp_path / "long.jsonl").read()


@pytest.mark.parametrize("line", ["[" * 10**5, '{"a": ' * 33 + "1" + "}" * 33])
def test_a_deep_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "log.jsonl").write_text(f"{{}}\n{line}\n")
    with pytest.raises(JSONFileError, match=r"log\.jsonl:2:1: the file must nest at most 32 deep"):
        JSONLinesFile(tmp_path / "log.jsonl").read()
