"""Whole searches: their folder, how they go on after a kill, their evaluators, and bad input."""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shortfalls import counted

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.commands.export_network import read_architecture
from autoprox.commands.search import SearchSummary
from autoprox.declared_options import read_assignments
from autoprox.errors import AutoproxError, ConfigError, MeasurementError, RunError
from autoprox.evolution.prior_knowledge import ready_made_proxy
from autoprox.files.json_documents import JSONFileError
from autoprox.nas.architecture_evaluators import EvaluatorError, load_evaluator
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES, SearchParameters, SearchStrategy
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.run_report_by_kind import run_report
from autoprox.searchspaces import architecture_from_json, get_space
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES
from autoprox.zoo.proxy_loading import resolve_proxy

SPACE = get_space("autoformer-nano")
HEADS = "sum(mul(width, heads))"
SMALL: dict[str, dict[str, Any]] = {
    "random": {"samples": 60},
    "blockwise": {"population": 8, "mutants": 4, "crossovers": 2, "steps": 3},
    "etas": {"samples": 10, "mutants": 5, "steps": 2, "evaluator": "mine:value"},
    "evolution": {"population": 8, "tournament": 3, "mutants": 4, "steps": 3},
}
MINE = """
import math

def value(architecture):
    return sum(architecture["choices"]["num_heads"])

def partial(architecture):
    heads = architecture["choices"]["num_heads"]
    if len(heads) == 2:
        raise ValueError("two blocks\\nare not enough")
    return math.nan if len(heads) == 3 else sum(heads)

constant = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the searches run, with a user's module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def search(strategy: str = "random", **options: Any) -> dict[str, Any]:
    given = {"space": "autoformer-nano", "proxy": HEADS, **SMALL[strategy], **options}
    return autoprox.search(strategy=strategy, progress=False, **given).to_dict()


def resume(run: str | Path, **resources: Any) -> dict[str, Any]:
    return autoprox.resume(run, progress=False, **resources).to_dict()


def comparable(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k not in ("run", "seconds")}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_summary_names_the_best() -> None:
    summary = search(params=":60K", dataset="cifar100", top=3)
    assert {"run", "best", "top", "evaluations", "seconds", "failed"} <= set(summary)
    best = architecture_from_json({"space": "autoformer-nano", "choices": summary["best"]["arch"]})
    assert summary["best"]["params"] == SPACE.params(best, 100) <= 60_000
    assert summary["best"]["flops"] == SPACE.flops(best, 100)
    assert summary["best"]["score"] == sum(b.width * b.heads for b in SPACE.blocks(best))
    assert summary["top"][0] == summary["best"]
    scores = [row["score"] for row in summary["top"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert summary["evaluations"] == 60
    assert summary["failed"] == {}


def test_the_folder_has_every_candidate() -> None:
    summary = search()
    run = Path(summary["run"])
    kept = lines(run / "candidates.jsonl")
    assert len(kept) == 60
    for line in kept:
        architecture = architecture_from_json({"space": "autoformer-nano", "choices": line["arch"]})
        assert line["params"] == SPACE.params(architecture, 10)
        assert line["flops"] == SPACE.flops(architecture, 10)
        assert line["terms"] == [sum(b.width * b.heads for b in SPACE.blocks(architecture))]
        assert line["failure"] is None
    assert max(line["terms"][0] for line in kept) == summary["best"]["score"]
    assert kept[summary["best"]["candidate"]]["arch"] == summary["best"]["arch"]
    assert json.loads((run / "top.json").read_text()) == summary["top"]
    assert [line["candidates"] for line in lines(run / "log.jsonl")] == [50, 60]
    assert json.loads((run / "config.json").read_text())["set"] == {"samples": 60}


def test_the_table_ranks_all_candidates_again() -> None:
    summary = search(proxy="rank(sum(width))", samples=100, top=100)
    widths = [sum([r["arch"]["hidden_dim"]] * r["arch"]["depth"]) for r in summary["top"]]
    ranks = [r["score"] for r in summary["top"]]
    below = [sum(w < width for w in widths) for width in widths]
    ties = [sum(w == width for w in widths) for width in widths]
    assert ranks == [b + (t + 1) / 2 for b, t in zip(below, ties, strict=True)]


@pytest.mark.parametrize("strategy", SMALL)
@pytest.mark.parametrize("weights", ["fresh", "shared", "inherited"])
def test_a_search_by_measured_networks_goes_on_where_it_was_cut(
    strategy: str, weights: str, folder: Path
) -> None:
    """As a kill leaves it: without an end, the last line of every file perhaps unfinished."""
    whole = search(strategy, proxy="dss++", weights=weights, batch_size=1, evaluator="mine:partial")
    path, rng = Path(whole["run"]), random.Random(strategy + weights)
    for number in range(2):
        cut = folder / f"cut-{number}"
        shutil.copytree(path, cut)
        (cut / "summary.json").unlink()
        (cut / "top.json").unlink()
        for name in ("candidates.jsonl", "evaluations.jsonl", "log.jsonl"):
            content = (path / name).read_bytes()
            (cut / name).write_bytes(content[: rng.randrange(len(content))])
        assert comparable(resume(cut, evaluator="mine:partial")) == comparable(whole)
        for name in ("candidates.jsonl", "evaluations.jsonl", "top.json"):
            assert (cut / name).read_bytes() == (path / name).read_bytes()
        steps = [{**line, "seconds": 0} for line in lines(cut / "log.jsonl")]
        assert steps == [{**line, "seconds": 0} for line in lines(path / "log.jsonl")]


def test_what_is_on_record_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search("etas", proxy="l2_norm")
    (Path(whole["run"]) / "summary.json").unlink()
    monkeypatch.setattr(type(SPACE), "build", None)
    (Path.cwd() / "mine.py").write_text("value = lambda architecture: 1 / 0")
    sys.modules.pop("mine")
    assert comparable(resume(whole["run"], evaluator="mine:value")) == comparable(whole)


def test_a_finished_search_is_read() -> None:
    whole = search()
    assert resume(whole["run"]) == whole


KILLED = """
import autoprox, os, signal, sys
def progress(task, done, total, note):
    if task == "run": print(note, flush=True)
    if done == 13: os.kill(os.getpid(), signal.SIGKILL)
autoprox.search(space="autoformer-nano", proxy="snip", samples=20, batch_size=1, progress=progress)
"""


def test_a_killed_search_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    killed = Path(done.stdout.strip())
    assert 0 < len(lines(killed / "candidates.jsonl")) < 20
    whole = search(proxy="snip", samples=20, batch_size=1)
    assert comparable(resume(killed)) == comparable(whole)


def test_the_workers_may_change_when_a_search_goes_on() -> None:
    whole = search(proxy="snip", samples=10)
    (Path(whole["run"]) / "summary.json").unlink()
    (Path(whole["run"]) / "candidates.jsonl").unlink()
    assert comparable(resume(whole["run"], workers=1)) == comparable(whole)


def test_a_record_of_another_search_is_refused() -> None:
    whole = search()
    path = Path(whole["run"])
    (path / "summary.json").unlink()
    records = path / "candidates.jsonl"
    first, *others = records.read_text().splitlines(keepends=True)
    records.write_text("".join([others[0], first, *others[1:]]))
    with pytest.raises(JSONFileError, match=r"candidates.jsonl:1 must be the architecture that"):
        resume(path)
    records.write_text("no JSON\n")
    with pytest.raises(JSONFileError, match=r"candidates.jsonl:1:1: the file must be complete"):
        resume(path)


@pytest.mark.parametrize("space", ["pit-nano", "gpt2-nano"])
def test_the_default_is_a_ready_made_proxy(space: str) -> None:
    found = autoprox.search(space=space, samples=2, batch_size=1, progress=False)
    expression = EXPRESSION_PROXIES[ready_made_proxy(get_space(space))].expression
    assert found.summary.proxy == found.config["proxy"] == expression


def test_a_run_without_a_proxy() -> None:
    with pytest.raises(RunError, match=r"in a run of `autoprox evolve` or .* `autoprox report "):
        resolve_proxy(search()["run"])


def test_an_evaluator_sees_the_best_and_orders_them() -> None:
    summary = search(evaluator="mine:value", top=5)
    assert summary["evaluated"] == 5
    assert summary["size"]["largest"]["candidate"] in [row["candidate"] for row in summary["top"]]
    values = [row["value"] for row in summary["top"]]
    assert values == [sum(row["arch"]["num_heads"]) for row in summary["top"]]
    assert values == sorted(values, reverse=True)
    best_by_proxy = sorted(
        (line["terms"][0] for line in lines(Path(summary["run"]) / "candidates.jsonl")),
        reverse=True,
    )[:5]
    assert sorted((row["score"] for row in summary["top"]), reverse=True) == best_by_proxy


def value_of(record: dict[str, Any]) -> tuple[float, int]:
    """What the best is the most of: of equals the one that was found first."""
    return record["value"], -record["candidate"]


@pytest.mark.parametrize("top", [1, 5, 59])
@pytest.mark.parametrize("strategy", ["random", "evolution", "blockwise"])
def test_the_best_is_the_best_of_all_that_were_evaluated(strategy: str, top: int) -> None:
    """The proxy prefers few heads, so that the evaluator prefers the largest network."""
    summary = search(strategy, proxy="sum(neg(heads))", evaluator="mine:value", top=top)
    run = Path(summary["run"])
    records = [own for own in lines(run / "evaluations.jsonl") if own["value"] is not None]
    best = sorted(records, key=value_of, reverse=True)
    shown = [(row["candidate"], row["value"]) for row in summary["top"]]
    assert shown == [(own["candidate"], own["value"]) for own in best][:top]
    assert summary["best"] == summary["top"][0] == json.loads((run / "top.json").read_text())[0]
    largest = max(summary["best"]["params"], summary["size"]["largest"]["params"])
    assert summary["size"]["largest"]["params"] == largest
    assert (
        summary["evaluator_check"]["largest"]["regret"]
        == max(v["value"] for v in records) - (summary["evaluator_check"]["largest"]["value"])
    )
    exported = read_architecture(str(run)).architecture
    assert exported == SPACE.architecture(summary["best"]["arch"])


@pytest.mark.parametrize("top", [1, 7, 10, 100])
def test_where_an_evaluator_fails_the_next_ones_are_asked(
    top: int, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = search(evaluator="mine:partial", top=top)
    run = Path(summary["run"])
    candidates = lines(run / "candidates.jsonl")
    records = lines(run / "evaluations.jsonl")
    order = sorted(range(60), key=lambda n: (-candidates[n]["terms"][0], n))
    valued = [n for n in order if candidates[n]["arch"]["depth"] not in (2, 3)]
    last = order.index(valued[:top][-1]) if top <= len(valued) else len(order) - 1
    asked = [own["candidate"] for own in records]
    assert asked[: last + 1] == order[: last + 1]
    assert len(asked) <= last + 2  # the largest, too
    assert counted(summary).get("top", (top, top)) == (top, min(top, len(valued)))
    assert len(summary["top"]) == min(top, len(valued))
    assert all(row["value"] is not None for row in summary["top"])
    show(*run_report("search", SearchSummary.model_validate(summary, strict=False)))
    told = f"top: {top} asked for, {len(valued)} have a value\n"
    assert (told in capsys.readouterr().out) == (top > len(valued))
    (run / "summary.json").unlink()
    (run / "evaluations.jsonl").write_text(
        "".join(f"{json.dumps(own)}\n" for own in records[: len(records) // 2])
    )
    assert comparable(resume(run, evaluator="mine:partial")) == comparable(summary)


@pytest.mark.parametrize("top", [1, 59, 60, 61, 1000])
def test_more_than_there_are_is_told(top: int, capsys: pytest.CaptureFixture[str]) -> None:
    summary = search(top=top)
    assert counted(summary).get("top", (top, top)) == (top, len(summary["top"]))
    assert len(summary["top"]) == min(top, 60)
    show(*run_report("search", SearchSummary.model_validate(summary, strict=False)))
    told = f"top: {top} asked for, 60 candidates have a score\n"
    assert (told in capsys.readouterr().out) == (top > 60)


def test_etas_shows_what_it_evaluated() -> None:
    """How many the evaluator sees is an option of etas."""
    summary = search("etas", top=50, proxy="sum(neg(heads))")
    records = lines(Path(summary["run"]) / "evaluations.jsonl")
    assert len(records) == summary["evaluated"]
    shown = [(row["candidate"], row["value"]) for row in summary["top"]]
    best = sorted(records, key=value_of, reverse=True)
    assert shown == [(own["candidate"], own["value"]) for own in best]
    assert counted(summary)["top"] == (50, len(records))


def test_what_an_evaluator_fails_on_is_recorded() -> None:
    summary = search(
        "etas", proxy="sum(neg(one))", samples=200, evaluated=60, evaluator="mine:partial"
    )
    assert {"evaluator: ValueError: two blocks", "evaluator: nan"} <= set(summary["failed"])
    assert all(row["arch"]["depth"] not in (2, 3) for row in summary["top"])
    records = lines(Path(summary["run"]) / "evaluations.jsonl")
    assert len(records) == summary["evaluated"]
    assert sum(line["value"] is None for line in records) == sum(summary["failed"].values())


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "nowhere:value",
            r"given as MODULE:FUNCTION, but 'nowhere:value' gives ModuleNot",
        ),
        ("mine:absent", r"given as MODULE:FUNCTION, but 'mine:absent' gives AttributeErr"),
        ("mine:constant", r"given as MODULE:FUNCTION, but 'mine:constant' is 3"),
        ("hw-gpt-bnch", r"did you mean hw-gpt-bench\?\); choose from .*, or give MODULE:FUNCTION"),
        ("hw-gpt-bench", r"answers for gpt2-hw, but the space is autoformer-nano"),
        (None, r"etas must have an evaluator, a benchmark or MODULE:FUNCTION, but got none"),
    ],
)
def test_an_evaluator_that_is_none_leaves_nothing_behind(
    reference: str | None, message: str, folder: Path
) -> None:
    with pytest.raises((EvaluatorError, ConfigError), match=message):
        search("etas", evaluator=reference)
    assert not (folder / "runs").exists()


def test_a_search_whose_evaluator_always_fails_ends(folder: Path) -> None:
    (folder / "mine.py").write_text("value = lambda architecture: 1 / 0")
    with pytest.raises(MeasurementError, match="all 5 failed: evaluator: ZeroDivisionError"):
        search(samples=5, evaluator="mine:value")


def test_a_table_answers_for_its_own_architectures() -> None:
    table = load_benchmark("nano-bench")
    own = table.architectures[3]
    means = np.mean([scores[3] for scores in table.scores.values()])
    evaluator = load_evaluator("nano-bench", SPACE, "imagenet", None)
    (found, (_, value, failure)) = evaluator.evaluate([own, SPACE.largest()], budget=2)
    assert found == (0, pytest.approx(means), None)
    one = load_evaluator("nano-bench", SPACE, "cifar10", None)
    [found] = one.evaluate([own], budget=1)
    assert found == (0, pytest.approx(table.scores["cifar10"][3]), None)
    assert value is None
    assert "not one of the" in str(failure)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": "1G:"}, r"none is within params 1G:: the nearest params are"),
        ({"params": "5M:4M"}, r"`low <= high` must hold for params, but got '5M:4M'"),
        ({"flops": "many"}, r"flops must be LOW:HIGH"),
        ({"proxy": "msa.weight"}, r"a proxy is a Network, got Matrix\[msa\]"),
        ({"proxy": "snipp"}, r"unknown name `snipp`; nearest: `snip`"),
        ({"space": "autoformer-nan"}, r"unknown search space .*did you mean autoformer-nano"),
        (
            {"strategy": "blockwide"},
            r"unknown search strategy 'blockwide' .*mean blockwise",
        ),
        ({"steps": 3}, r"unknown option 'steps' of random; choose from samples"),
        ({"sampels": 3}, r"unknown option 'sampels' \(did you mean samples\?\)"),
        ({"samples": 0}, r"samples must be a whole number >= 1, but got 0"),
        ({"weights": "own"}, r"unknown weights 'own'; choose from fresh, shared, inherited"),
        ({"space": "flexibert", "weights": "inherited"}, r"flexibert is not; choose from"),
        ({"dataset": "cifar"}, r"unknown dataset 'cifar' \(did you mean cifar10\?\)"),
        ({"images": "absent"}, r"absent must be a file or folder of images"),
        ({"text": "mine.py"}, r"autoformer-nano takes images, which text mine.py is not for"),
        ({"space": "flexibert", "text": "mine.py", "length": 500}, r"mine.py must have at least"),
        ({"set": {"steps": 3}}, r"unknown option 'steps' of random; choose from samples"),
        ({"set": {"samples": 0}}, r"samples must be a whole number >= 1, but got 0"),
        ({"set": {"samples": "many"}}, r"samples must be a whole number >= 1, but got 'many'"),
        ({"set": {"samples": 3}, "samples": 3}, r"samples must be given once, but is an option"),
        ({"set": "samples=3"}, r"set must be a mapping of names to values, but got 'samples=3'"),
        ({"top": 0}, r"top must be a whole number >= 1"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(
    options: dict[str, Any], message: str, folder: Path
) -> None:
    given = {"space": "autoformer-nano", "proxy": HEADS, "strategy": "random", **options}
    with pytest.raises(AutoproxError, match=message) as error:
        autoprox.search(**given)
    assert "\n" not in str(error.value)
    assert not (folder / "runs").exists()


def test_statistics_that_a_space_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    network = type(SPACE.network(SPACE.largest(), classes=1))
    layers: Callable[..., Any] = network.layers
    monkeypatch.setattr(network, "layers", lambda self: [p for p in layers(self) if p[0] == "mlp"])
    message = r"the proxy needs msa.weight, but the networks of autoformer-nano only have .* of mlp"
    with pytest.raises(ConfigError, match=message):
        search(proxy="sum(sum(msa.weight))")


def test_a_space_without_attention_has_all_layers_in_one_domain(folder: Path) -> None:
    """SNIP of a convolutional network is that of the layers that expand and project."""
    given = {"space": "bignas-nano", "dataset": "cifar10", "samples": 3}
    whole, part = (
        autoprox.search(proxy=proxy, **given).top
        for proxy in ("snip", "sum(sum(abs(mul(mlp.weight, mlp.grad))))")
    )
    assert [top["score"] for top in whole] == [top["score"] for top in part]
    with pytest.raises(ConfigError, match=r"needs msa.weight, but the networks of bignas-nano"):
        autoprox.search(proxy="add(sum(sum(mlp.weight)), sum(sum(msa.weight)))", **given)


def write_subnets(folder: Path, *widths: int) -> Path:
    """A file as `prenas` and `search` write it."""
    file = folder / "subnets.json"
    entries = [
        {"arch": {"hidden_dim": w, "depth": 1, "mlp_ratio": [1.0], "num_heads": [1]}, "params": 1}
        for w in widths
    ]
    file.write_text(json.dumps(entries))
    return file


def test_a_file_of_subnets_is_chosen_from_within_the_limits(folder: Path) -> None:
    file = write_subnets(folder, 16, 24, 32, 48)
    found = search(subnets=file, params=":9K", dataset="cifar10")
    run = Path(found["run"])
    scored = [line["arch"]["hidden_dim"] for line in lines(run / "candidates.jsonl")]
    assert sorted(scored) == [16, 24, 32]
    again = search(subnets=run / "top.json", samples=2)
    assert len({top["arch"]["hidden_dim"] for top in again["top"]} & {16, 24, 32}) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "evolution"}, "of subnets that are given, only random chooses, but the stra"),
        ({"params": ":1K"}, "subnets must meet the limits, but none of the 2 does: they have"),
    ],
)
def test_subnets_that_cannot_be_searched(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        search(**{"subnets": write_subnets(folder, 16, 24), **options})
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("strategy", SMALL)
def test_options_that_are_set_are_those_of_the_same_names(strategy: str) -> None:
    """As values, and as the texts of a command line; the run's config is the same."""
    given = {"space": "autoformer-nano", "proxy": HEADS, "strategy": strategy, "progress": False}
    own = dict(SMALL[strategy])
    given |= {name: own.pop(name) for name in ("evaluator",) if name in own}
    expected = autoprox.search(**given, **own).to_dict()
    for values in (own, {name: str(value) for name, value in own.items()}):
        found = autoprox.search(**given, set=values).to_dict()
        assert comparable(found) == comparable(expected)
        configs = [(Path(one["run"]) / "config.json").read_text() for one in (found, expected)]
        assert configs[0] == configs[1]


class WithPause(SearchParameters):
    """A strategy's own option."""

    samples: int = 5
    each: int = 1

    @property
    def candidates(self) -> int:
        return self.samples


def search_each(searcher: Searcher, settings: WithPause) -> None:
    for _ in range(settings.samples):
        searcher.score(searcher.samples(settings.each))
        searcher.step()


def test_a_resumed_search_keeps_what_was_set() -> None:
    with SEARCH_STRATEGIES.trial("each", SearchStrategy(search_each, WithPause)):
        given = {"space": "autoformer-nano", "proxy": HEADS, "strategy": "each"}
        whole = autoprox.search(**given, set={"each": 3}, progress=False).to_dict()

        def stop(task: str, done: int, total: int, note: str) -> None:
            if task == "search" and done == 4:
                raise MeasurementError("stopped")

        with pytest.raises(MeasurementError):
            autoprox.search(**given, set={"each": 3}, progress=stop, name="cut")
        [cut] = Path("runs").glob("*-cut")
        assert json.loads((cut / "config.json").read_text())["set"] == {"samples": 5, "each": 3}
        assert comparable(resume(cut)) == comparable(whole)
        assert whole["evaluations"] == 5 * 3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["samples"], "set must be NAME=VALUE, for example samples=100, but got 'samples'"),
        (["=3"], "set must be NAME=VALUE, .*, but got '=3'"),
        (["samples="], "set must be NAME=VALUE, .*, but got 'samples='"),
        (["samples=3", "samples=4"], "samples must be set once, but got 3 and 4"),
    ],
)
def test_assignments_that_cannot_be_read(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_assignments(texts)


def test_fewer_candidates_than_are_shown_by_default_are_no_shortfall() -> None:
    summary = search(samples=3)
    assert counted(summary) == {}
    assert len(summary["top"]) == 3
