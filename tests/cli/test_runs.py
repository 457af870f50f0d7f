"""The commands that look back on runs, and at the machine."""

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from filelock import ReadWriteLock
from helpers.commands import Command
from helpers.pages import NANO, PIT, read_summary, search_run, spaces_run
from helpers.records import proxy_record
from helpers.tables import table

from autoprox.commands import doctor
from autoprox.runs.folder import Run

EXPRESSIONS = ("sum(sum(abs(msa.grad)))", "sum(sum(msa.weight))", "sum(width)")


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A finished discovery of three formulas."""
    monkeypatch.chdir(tmp_path)
    summary = read_summary(NANO)
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    config = {"kind": "evolve", "benchmark": "mine.json", "seed": 7, "train": 0.6}
    taus: list[dict[str, dict[str, float | None]]] = [
        {"train": {"wide": 0.5, "deep": 0.7}, "test": {"wide": 0.25}},
        {"evolution": {"wide": 0.1, "deep": 0.3}},
        {},
    ]
    with Run.create(Path("runs"), "found", config) as run:
        run.write_proxies(
            [
                proxy_record(expression=text, taus=own)
                for text, own in zip(EXPRESSIONS, taus, strict=True)
            ]
        )
        run.write_summary(summary)
        return str(run.path)


def figures(run: Path) -> tuple[float, float]:
    """Return the fitness of a committed discovery, and its mean test tau."""
    [fold] = read_summary(run)["folds"]
    [quality] = fold["spaces"].values()
    [fitness] = [own["jcm"] for own in fold["front"] if own["chosen"]]
    return fitness, quality["means"]["proxy"]["test"]["kendall"]


def test_runs_are_listed(run: Command, found: str) -> None:
    with Run.create(Path("runs"), "begun", {"kind": "search", "space": "pit"}) as other:
        unfinished = str(other.path)
    rows = {row["run"]: row for row in run("runs", "--json").json}
    assert set(rows) == {found, unfinished}
    assert (rows[found]["kind"], rows[found]["benchmark"]) == ("evolve", "mine.json")
    assert (rows[found]["fitness"], rows[found]["test"]) == figures(NANO)
    assert rows[found]["ended"]
    shown = run("runs").out
    assert f"{unfinished} (unfinished)\n" in shown
    assert f"{figures(NANO)[0]:.3f}" in shown
    assert max(map(len, shown.splitlines()[:5])) <= 80
    assert run("runs", "nowhere").code == 2


def test_a_discovery_on_several_spaces_is_listed(run: Command, tmp_path: Path) -> None:
    """By the means over its evolutions, and over the spaces on which they were measured."""
    spaces_run(tmp_path / "runs")
    [row] = run("runs", str(tmp_path), "--json").json
    fitness, taus = zip(figures(NANO), figures(PIT), strict=True)
    assert row["fitness"] == pytest.approx(sum(fitness) / 2)
    assert row["test"] == pytest.approx(sum(taus) / 2)


def test_a_report_is_written_of_runs_alone(run: Command, tmp_path: Path) -> None:
    made = str(search_run(tmp_path / "begun", 3))
    told = run("report", made, "--out", str(tmp_path / "page.html"), "--json").json
    assert told == {"runs": [made], "format": "html", "file": str(tmp_path / "page.html")}
    assert "isn&#39;t finished" in (tmp_path / "page.html").read_text()
    for wrong in (str(tmp_path / "absent"), str(tmp_path)):
        result = run("report", made, wrong)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        assert result.err.startswith("error: a run must ")


@pytest.mark.parametrize("command", ["show", "compare", "export proxy", "search"])
def test_an_unfinished_discovery_has_no_formula(
    run: Command, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    config = {"kind": "evolve", "benchmark": "mine.json", "datasets": ["wide"], "train": 0.6}
    with Run.create(Path("runs"), "begun", {**config, "split_seed": 0}) as begun:
        path = str(begun.path)
    given = {"compare": [path, "snip"], "search": ["--space=pit", f"--proxy={path}"]}
    result = run(*command.split(), *given.get(command, [path]))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert f"autoprox resume {path}` continues it" in result.err


def test_the_front_by_numbers(run: Command, found: str) -> None:
    rows = run("show", found, "--all", "--json").json
    assert [row["expression"] for row in rows] == list(EXPRESSIONS)
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert rows[0]["train"] == pytest.approx(0.6)
    assert (rows[0]["test"], rows[1]["train"], rows[1]["test"]) == (0.25, 0.2, None)
    assert f"{found}:3" in run("show", found, "--all").out
    for number, expression in enumerate(EXPRESSIONS, start=1):
        assert run("show", f"{found}:{number}", "--json").json["expression"] == expression
    wrong = run("show", f"{found}:4")
    assert wrong.code == 2
    assert f"has the formulas 1 to 3, but got {found}:4" in wrong.err


def test_side_by_side(run: Command, found: str) -> None:
    first, second = run("show", found, "snip", "--json").json
    assert (first["expression"], first["seed"], first["nodes"]) == (EXPRESSIONS[0], 7, 4)
    assert (second["name"], second["nodes"]) == ("snip", 6)
    shown = run("show", found, "snip").out
    assert f"1: {found}\n2: snip\n" in shown
    assert run("show", found, "snip", "--latex").code == 2


def test_the_cache_is_shown_and_cleared(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    measured = f"statistics/ab/{'cd' * 31}"
    for name, size in ((measured, 2000), ("zoo/x.json", 30), ("data/y", 400)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(bytes(size))
    facts = run("cache", "--cache", str(folder), "--json").json
    assert (facts["bytes"], facts["files"], facts["removed"]) == (2430, 3, 0)
    assert facts["parts"] == {"data": 400, "statistics": 2000, "zoo": 30}
    assert "2.43KB in 3 files" in run("cache", "--cache", str(folder)).out
    removed = run("cache", "--cache", str(folder), "--clear", "--json").json["removed"]
    assert (folder / "data/y").exists()
    assert not (folder / measured).exists()
    assert not (folder / "zoo").exists()
    assert removed > 0


def test_the_cache_is_cleared_by_age_and_size(run: Command, tmp_path: Path) -> None:
    measured = [f"statistics/{name}/{name[0] * 62}" for name in ("ab", "ac", "cd")]
    names = (*measured, "zoo/x.json", "data/y")
    (tmp_path / "statistics").mkdir()
    for days, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(1000))
        used = time.time() - 86_400 * (10 * days + 1)
        os.utime(path, (used, used))

    def left(*given: str) -> set[str]:
        result = run("cache", "--cache", str(tmp_path), *given)
        assert result.code == 0, result.err
        return {name for name in names if (tmp_path / name).exists()}

    assert left() == set(names)
    assert left("--clear", "--older-than", "30d") == {*names} - {"zoo/x.json"}
    assert left("--clear", "--older-than", "20") == {names[0], names[1], names[4]}
    assert left("--clear", "--beyond", "1KB") == {names[0], names[4]}
    assert left("--clear") == {names[4]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--older-than", "30d"), "say what --clear removes"),
        (("--clear", "--older-than", "0"), "an age must be a number of days from 1 to 36500"),
        (("--clear", "--older-than", "soon"), "an age must be a number of days"),
        (("--clear", "--beyond", "much"), "a size must be a number of bytes"),
    ],
)
def test_wrong_bounds_of_the_cache(
    run: Command, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    result = run("cache", "--cache", str(tmp_path), *given)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_the_bounds_of_the_cache_are_those_of_the_environment(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "statistics" / "ab").mkdir(parents=True)
    (tmp_path / "statistics" / "ab" / ("c" * 62)).write_bytes(bytes(3000))
    facts = run("cache", "--cache", str(tmp_path), "--json").json
    assert (facts["limit"], facts["age"], facts["superfluous"]) == (20 * 2**30, 90, 0)
    monkeypatch.setenv("AUTOPROX_CACHE_LIMIT", "2KB")
    monkeypatch.setenv("AUTOPROX_CACHE_AGE", "7d")
    facts = run("cache", "--cache", str(tmp_path), "--json").json
    assert (facts["limit"], facts["age"], facts["superfluous"]) == (2000, 7, 3000)
    monkeypatch.setenv("AUTOPROX_CACHE_AGE", "never")
    result = run("cache", "--cache", str(tmp_path))
    assert result.code == 2
    assert "AUTOPROX_CACHE_AGE: an age must be" in result.err


def test_a_cache_in_use_stays(run: Command, tmp_path: Path) -> None:
    (tmp_path / "statistics").mkdir()
    lock = ReadWriteLock(tmp_path / "statistics" / "lock.db", is_singleton=False)
    with lock.read_lock():
        result = run("cache", "--cache", str(tmp_path), "--clear")
    lock.close()
    assert result.code == 2
    assert "must not be in use" in result.err


def test_imports_that_fail_are_found_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they raise, end the process or never end; what isn't installed isn't tried."""
    texts = {
        "raising": "print('autoprox imports'); raise RuntimeError('no such thing')",
        "ending": "import os; os._exit(3)",
        "endless": "import time; time.sleep(60)",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "IMPORT_SECONDS", 8)
    names = ("json", "raising", "ending", "absent", "csv", "endless", "calendar")
    assert doctor.failed_imports(names) == {
        "raising": "RuntimeError: no such thing",
        "ending": "its process ended with the code 3",
        "endless": "no end after 8 seconds",
    }
    assert {"raising", "ending", "endless"}.isdisjoint(sys.modules)


def test_the_doctor(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    facts = run("doctor", "--json").json
    assert facts["packages"]["torch"] == version("torch")
    assert facts["benchmarks"]["nano-bench"] is True
    assert facts["cache"]["folder"] == str(tmp_path / "autoprox")
    monkeypatch.setattr(doctor, "failed_imports", lambda: {})
    told = run("doctor")
    assert (told.code, "No problems found." in told.out) == (0, True)
    monkeypatch.setattr(doctor, "failed_imports", lambda: {"timm": "RuntimeError: no such thing"})
    told = run("doctor")
    assert told.code == 0
    assert "timm can't be imported: RuntimeError: no such thing" in told.out
    assert "No problems found." not in told.out
    assert run("doctor", "--json").json["imports"] == {"timm": "RuntimeError: no such thing"}
    (tmp_path / "runs").write_text("")  # where a folder should be
    assert run("doctor").code == 1
