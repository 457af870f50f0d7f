"""Pages of runs: well-formed, self-contained, escaped, and quick for many candidates."""

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from autoprox.errors import ConfigError
from autoprox.export import mathml
from autoprox.export.mathml_form import mathml_of
from autoprox.language import parse
from autoprox.page.document import page_of
from autoprox.page.forms import write_report
from autoprox.page.fronts import front
from autoprox.page.plots import Point, Series, plot
from autoprox.primitives import OPERATIONS, Formula, fill

RUNS = Path(__file__).parents[2] / "runs"
COMMITTED = (*sorted((RUNS / "reference").iterdir())[:2], *sorted((RUNS / "ranks").iterdir())[:1])
OPENED = r"(?:src|href)=\"(?!#)|@import|url\("


def parsed(page: str) -> ElementTree.Element:
    """The page, which must be well-formed."""
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def search_run(folder: Path, candidates: int, proxy: str = "sum(sum(abs(all.weight)))") -> Path:
    """A search's folder, by hand."""
    folder.mkdir()
    lines = [
        {"arch": {"depth": 1, "mlp_ratio": [2.0]}, "params": 1000 + n, "flops": n,
         "terms": [float(n % 977)], "failure": None}
        for n in range(candidates)
    ]  # fmt: skip
    (folder / "candidates.jsonl").write_text("".join(json.dumps(own) + "\n" for own in lines))
    (folder / "log.jsonl").touch()
    config = {"kind": "search", "proxy": proxy, "space": "<script>alert(1)</script>"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "environment.json").write_text('{"command": ["autoprox", "search"]}')
    return folder


@pytest.mark.parametrize("run", COMMITTED, ids=lambda run: str(run.name))
def test_the_page_of_a_run_is_whole(run: Path) -> None:
    page = page_of([run])
    headings = [element.text for element in parsed(page).iter("h2")]
    assert "Every setting" in headings
    assert "How to repeat it" in headings
    assert not re.search(OPENED, page)
    assert "<script" not in page


def test_several_runs_are_compared() -> None:
    page = page_of(COMMITTED)
    articles = list(parsed(page).iter("article"))
    assert [own.get("id") for own in articles[1:]] == [run.name for run in COMMITTED]
    assert "Settings that differ" in page


def test_text_of_files_is_escaped(tmp_path: Path) -> None:
    page = page_of([search_run(tmp_path / "run", 3)])
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_20000_candidates_are_quick_and_small(tmp_path: Path) -> None:
    run = search_run(tmp_path / "run", 20_000)
    started = time.process_time()
    page = page_of([run])
    assert time.process_time() - started < 2
    assert len(page.encode()) < 3_000_000
    parsed(page)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_mathml(name: str) -> None:
    values = {"x": Formula("p"), "y": Formula("q"), "times": Formula(r"\cdot")}
    operation = OPERATIONS[name]
    written = mathml_of(fill(operation.latex, "ij", **values))
    letters = [own.text for own in ElementTree.fromstring(written).iter("mi")]
    assert not re.search(r"[\\{}^_]|None", written)
    assert [letter for letter in "pq"[: operation.arity] if letter not in letters] == []


def test_mathml_of_snip() -> None:
    written = mathml(parse("sum(sum(abs(mul(all.weight, all.grad))))"))
    weight, grad = (
        f'<msubsup><mi>{letter}</mi><mi>l</mi><mi mathvariant="normal">all</mi></msubsup>'
        for letter in "WG"
    )
    bar = '<mo fence="true" stretchy="true">|</mo>'
    sums = (
        "<msub><mo>∑</mo><mi>l</mi></msub>"
        "<msub><mo>∑</mo><mrow><mi>i</mi><mo>,</mo><mi>j</mi></mrow></msub>"
    )
    inner = f"<mrow>{bar}<mrow>{weight}<mo>⊙</mo>{grad}</mrow>{bar}</mrow>"
    assert written == f'<math display="block"><mrow>{sums}{inner}</mrow></math>'


def test_a_front_is_what_none_is_better_than() -> None:
    points = [Point(1, 1), Point(2, 3), Point(2, 2), Point(3, 3), Point(4, 5)]
    better = [p for p in points if not any(q.x <= p.x and q.y >= p.y and q != p for q in points)]
    assert front(points) == better


def test_a_plot_leaves_out_what_is_not_finite() -> None:
    points = [Point(1, float("nan"), "lost"), Point(2, 3, "kept")]
    drawn = plot([Series("a", points)], "x", "y", "t")
    spots = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}circle")
    assert ["".join(spot.itertext()) for spot in spots] == ["kept"]


@pytest.mark.parametrize(("form", "begins"), [("md", "# "), ("svg", "<svg"), ("html", "<!DOCTYPE")])
def test_other_forms(form: str, begins: str, tmp_path: Path) -> None:
    file = write_report([search_run(tmp_path / "run", 5)], form, tmp_path / "out")
    assert file.read_text().startswith(begins)


def test_a_form_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format 'pdf'"):
        write_report([tmp_path], "pdf")
