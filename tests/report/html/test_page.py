"""Pages of runs: well-formed, self-contained, escaped, and quick for many candidates."""

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from helpers.pages import COMMITTED, discovery, read_summary, search_run, spaces_run

from autoprox.errors import ConfigError, RunError
from autoprox.evolution_parameters import MAX_DEPTH
from autoprox.export import mathml
from autoprox.export.mathml_format import mathml_from_latex
from autoprox.language import parse_expression
from autoprox.primitives import OPERATIONS, LatexFormula, fill_template
from autoprox.report.html.page_content import proxy_title, report_part
from autoprox.report.html.page_rendering import render_macro, render_page
from autoprox.report.html.report_formats import write_report
from autoprox.report.html.svg_geometry import PlotPoint, PlotSeries, layout_plot, pareto_front
from autoprox.report.terminal.layout import Part, new_table, next_command
from autoprox.zoo.expression_proxies import parse_with_zoo_names

OPENED = r"(?:src|href)=\"(?!#)|@import|url\("


def parsed(page: str) -> ElementTree.Element:
    """The page, which must be well-formed."""
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("run", COMMITTED, ids=lambda run: str(run.name))
def test_the_page_of_a_run_is_whole(run: Path) -> None:
    page = render_page([run])
    headings = headings_of(page)
    assert "Every setting" in headings
    assert "How to repeat it" in headings
    assert "started from Python" not in page  # which isn't known without the environment
    assert not re.search(OPENED, page)
    assert "<script" not in page


def headings_of(page: str) -> list[str | None]:
    return [element.text for element in parsed(page).iter() if element.tag in ("h2", "summary")]


def test_the_page_of_a_discovery_has_all_that_was_promised(tmp_path: Path) -> None:
    page = render_page([discovery(tmp_path / "run")])
    assert headings_of(page) == [
        *("Score and true score", "Nodes and fitness"),
        *("The formula", "The operations", "As text", "As a tree"),
        *("Results", "All correlations", "Fitness over the evolution"),
        *("Every setting", "The environment", "How to repeat it"),
    ]
    assert page.count("Regret:") == page.count("Size controlled for:") == 1
    assert "<math" in page
    [tree] = [d for d in parsed(page).iter("details") if d.findtext("summary") == "As a tree"]
    assert "open" not in tree.attrib
    first = parsed(page).find(".//section")
    assert first is not None
    text = " ".join("".join(first.itertext()).split())
    assert text.startswith("Too few to judge") or "unseen networks with Kendall tau" in text
    assert "Next: autoprox search --space" in text


def test_the_page_of_a_discovery_on_several_spaces(tmp_path: Path) -> None:
    page = render_page([spaces_run(tmp_path / "run")])
    assert [h for h in headings_of(page) if h and h.startswith("The formula")] == [
        "The formula evolved without one",
        "The formula evolved without two",
    ]
    captions = ["".join(own.itertext()) for own in parsed(page).iter("figcaption")]
    for words in (
        "Fitness over evaluations, without one",
        "one, evolved without one: ",
        "without two",
    ):
        assert any(words in caption for caption in captions)
    assert "This run" not in page


def shown(part: Part) -> str:
    return render_macro("sections.html.j2", "report_part", report_part(part)).replace("\n<", "<")


def test_texts_are_paragraphs_and_aligned_ones_keep_their_shape() -> None:
    assert shown("one\ntwo") == "<p>one</p><p>two</p>\n"
    assert shown(f"{77 * 'x'}\nyes y\nz") == f"<p>{77 * 'x'} yes y</p><p>z</p>\n"
    assert shown(f"{77 * 'x'}\na") == f"<p>{77 * 'x'}</p><p>a</p>\n"
    assert shown("name  value\nother 3") == "<pre>name  value\nother 3</pre>\n"
    assert shown("Run: a\nReport: b") == "<pre>Run: a\nReport: b</pre>\n"
    assert shown(next_command("a", "b")) == "<p>Next:</p><pre>autoprox a b</pre>\n"


def test_long_names_take_several_lines() -> None:
    drawn = new_table("name")
    drawn.add_column("figure")
    drawn.add_row(33 * "x", "1")
    drawn.add_row(32 * "y", "2")
    cells = [cell.get("class") for cell in ElementTree.fromstring(shown(drawn)).iter("td")]
    assert cells == ["long", None, None, None]


def test_several_runs_are_compared() -> None:
    page = render_page(COMMITTED)
    articles = list(parsed(page).iter("article"))
    assert [own.get("id") for own in articles[1:]] == [run.name for run in COMMITTED]
    assert "Settings that differ" in page


def test_a_discovery_on_several_spaces_is_compared(tmp_path: Path) -> None:
    page = render_page([spaces_run(tmp_path / "run"), COMMITTED[0]])
    tiles = [own.text for own in parsed(page).iter("{http://www.w3.org/2000/svg}title")]
    assert any(own and own.startswith("run, one/cifar100: 0.") for own in tiles)
    assert f"{COMMITTED[0].name}, one/cifar100: -" in tiles


def test_a_summary_of_another_version_is_refused(tmp_path: Path) -> None:
    run = discovery(tmp_path / "run")
    summary = read_summary(run)
    del summary["folds"][0]["front"][0]["jcm"]
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match="must hold what this version writes") as refused:
        render_page([run])
    assert "\n" not in str(refused.value)


def test_the_deepest_formula_is_drawn() -> None:
    deepest = f"{MAX_DEPTH * 'abs('}all.weight{MAX_DEPTH * ')'}"
    drawn = ElementTree.fromstring(
        render_macro("sections.html.j2", "formula", parse_expression(deepest))
    )
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) == MAX_DEPTH + 1


def test_text_of_files_is_escaped(tmp_path: Path) -> None:
    page = render_page([search_run(tmp_path / "run", 3)])
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_20000_candidates_are_quick_and_small(tmp_path: Path) -> None:
    run = search_run(tmp_path / "run", 20_000)
    started = time.process_time()
    page = render_page([run])
    assert time.process_time() - started < 2
    assert len(page.encode()) < 3_000_000
    parsed(page)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_mathml(name: str) -> None:
    values = {"x": LatexFormula("p"), "y": LatexFormula("q"), "times": LatexFormula(r"\cdot")}
    operation = OPERATIONS[name]
    written = mathml_from_latex(fill_template(operation.latex, "ij", **values))
    letters = [own.text for own in ElementTree.fromstring(written).iter("mi")]
    assert not re.search(r"[\\{}^_]|None", written)
    assert [letter for letter in "pq"[: operation.arity] if letter not in letters] == []


def test_mathml_of_snip() -> None:
    written = mathml(parse_expression("sum(sum(abs(mul(all.weight, all.grad))))"))
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
    points = [PlotPoint(1, 1), PlotPoint(2, 3), PlotPoint(2, 2), PlotPoint(3, 3), PlotPoint(4, 5)]
    better = [p for p in points if not any(q.x <= p.x and q.y >= p.y and q != p for q in points)]
    assert pareto_front(points) == better


def test_a_plot_leaves_out_what_is_not_finite() -> None:
    points = [PlotPoint(1, float("nan"), "lost"), PlotPoint(2, 3, "kept")]
    drawn = render_macro(
        "figures.html.j2", "plot", layout_plot("t", "x", "y", PlotSeries("a", points))
    )
    spots = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}circle")
    assert ["".join(spot.itertext()) for spot in spots] == ["kept"]


@pytest.mark.parametrize(("form", "begins"), [("md", "# "), ("svg", "<svg"), ("html", "<!DOCTYPE")])
def test_other_forms(form: str, begins: str, tmp_path: Path) -> None:
    file = write_report([search_run(tmp_path / "run", 5)], form, tmp_path / "out")
    assert file.read_text().startswith(begins)


def test_a_form_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format 'pdf'"):
        write_report([tmp_path], "pdf")


def test_the_heading_names_a_proxy_of_the_zoo() -> None:
    assert proxy_title(parse_with_zoo_names("snip")) == "The proxy: snip"
    assert proxy_title(parse_with_zoo_names("add(snip, snip)")) == "The proxy"
