"""The notebook runs from its first cell to its last, and is kept without outputs."""

import json
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "notebooks" / "quickstart.ipynb"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [own for own in cells if own.get("outputs") or own.get("execution_count")] == []


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra `dev` installs nbclient")
    pytest.importorskip("ipykernel", reason="the extra `dev` installs ipykernel")
    import nbformat

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    texts = [str(cell.get("outputs")) for cell in notebook.cells]
    tables = [text for text in texts if "gaussian-process" in text]
    assert tables
    assert any("<svg" in text for text in texts)
    assert (tmp_path / "network" / "network.py").is_file()
    [run] = (tmp_path / "runs").glob("*quickstart")
    expression = json.loads((run / "summary.json").read_text())["expression"]
    assert any(expression in text for text in texts)
