"""A computer without benchmark files."""

from pathlib import Path

import pytest


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with no benchmark file; the user's cache is below the returned folder."""
    monkeypatch.delenv("AUTOPROX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "autoprox" / "vit-bench-101"
