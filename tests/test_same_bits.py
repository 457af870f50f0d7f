"""What the commands find is what was recorded before, bit for bit, or doesn't depend on workers."""

import json
from pathlib import Path

import pytest
import same_bits

RECORD = json.loads((Path(__file__).parent / "data" / "same_bits.json").read_text())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing measured before is taken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("name", same_bits.SMALL)
def test_small_cases(name: str) -> None:
    """Where the last bits of the record aren't those of this machine, of one and two workers."""
    found = same_bits.digests(same_bits.outcome(same_bits.SMALL[name]))
    if RECORD["machine"] == same_bits.machine():
        assert same_bits.differences(RECORD["cases"], {name: found}) == []
    else:
        again = same_bits.outcome(f"{same_bits.SMALL[name]} --workers 1")
        assert same_bits.digests(again) == found


def test_what_differs_is_named() -> None:
    before = {"evolve": {"train": "a", "test": "b"}, "rank": {"rows": "c"}}
    now = {"evolve": {"train": "a", "test": "x", "more": "y"}}
    assert same_bits.differences(before, now) == ["evolve: test differs", "evolve: more differs"]


def test_times_and_places_are_left_out() -> None:
    document = {"run": "/tmp/a/run", "file": "/tmp/a/t.json", "rows": [{"seconds": 3, "tau": 1.0}]}
    expected = {"file": "/t.json", "rows": [{"tau": 1.0}]}
    assert same_bits.plain(document, "/tmp/a") == expected
