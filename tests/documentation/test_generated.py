"""What is written from the code is as the code is now."""

import re
from pathlib import Path

import make
import pytest
from pages import plots, results

from autoprox.primitives import OPERATIONS
from autoprox.primitives.primitive import apply_primitive

DOCS = Path(__file__).parent.parent.parent / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_everything_is_written_anew() -> None:
    """Places in plots may differ in the last digit: processors do."""
    seen = set()
    for path, content in make.written():
        seen.add(path)
        assert path.is_file(), f"{path.name} is missing: run docs/make.py"
        found = path.read_text()
        if path.suffix == ".svg":
            assert NUMBER.sub("", found) == NUMBER.sub("", content), path.name
            pairs = zip(NUMBER.findall(found), NUMBER.findall(content), strict=True)
            assert all(abs(float(a) - float(b)) < 0.11 for a, b in pairs), path.name
        else:
            assert found == content, f"{path.name} isn't as the code is: run docs/make.py"
    stale = {*DOCS.glob("plots/*"), *DOCS.glob("schemas/*")} - seen
    assert stale == set()


def test_readme_shows_the_first_rows_of_the_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "leaderboard.md"
    page.write_text(
        "## Shared weights\n| a |\n| - |\n\n"
        "## Fresh weights\n\n| | kind | one | two‡ | s per network |\n"
        "| --- | --- | --- | --- | --- |\n| `snip` | proxy | .5 [.4, .6]<br>partial .1 | .2 | 3 |\n"
        "\n| table | labels |\n| --- | --- |\n| one | trained |\n| two‡ | surrogate |\n\n## More\n"
    )
    monkeypatch.setattr(results, "LEADERBOARD", page)
    made = results.with_results("a\n<!-- leaderboard: x -->\nold\n<!-- end -->\nb")
    assert "old" not in made
    lines = made.splitlines()
    assert lines[2] == "|  | kind | one | two‡ |"
    assert lines[4] == "| `snip` | proxy | .5 | .2 |"
    assert lines[5:] == [
        *("", "Labels that aren't of trained networks: ‡ surrogate.", "<!-- end -->", "b")
    ]


def test_readme_is_short() -> None:
    assert len(make.README.read_text().splitlines()) <= 120
    paragraphs = re.sub(r"```.*?```", "", make.README.read_text(), flags=re.DOTALL).split("\n\n")
    long = [p for p in paragraphs if len(p.split("\n")) > 4 and not re.match(r"[|<#-]|\s*$", p)]
    assert long == []


@pytest.mark.parametrize("name", ["relu", "maximum", "softmax", "rank"])
def test_plots_are_of_the_operation(name: str) -> None:
    drawn = str(plots.drawing(name, OPERATIONS[name]))
    assert f"<title>{name}</title>" in drawn
    if name == "maximum":  # of x and -1, 0.5, 2: three curves
        assert drawn.count("<path") == 3
    if name in ("softmax", "rank"):
        assert drawn.count("<rect") == 2 * len(plots.VALUES)


def test_a_curve_has_the_values_of_its_operation() -> None:
    [curve] = plots.curves(OPERATIONS["relu"])
    assert curve == [max(0.0, x) for x in plots.ACROSS.tolist()]
    [along] = plots.curves(OPERATIONS["max"])
    assert along == [max(x, 2.0) for x in plots.ACROSS.tolist()]
    assert (
        apply_primitive(OPERATIONS["rank"], [plots.VALUES], "network").shape == plots.VALUES.shape
    )
