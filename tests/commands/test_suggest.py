"""`autoprox suggest`: suggestions and results in files, and bad input."""

import inspect
import json
import random
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.commands.export_network import read_architecture
from autoprox.configurations.commands import SuggestConfig
from autoprox.errors import ConfigError
from autoprox.evaluation.proxy_measurement import MeasuredProxies
from autoprox.files import atomic_writes
from autoprox.searchspaces import architecture_from_json, get_space

SPACE = get_space("autoformer-nano")
WIDTH = "--proxy=sum(width)"
NEW = ("--space=autoformer-nano", "--datasets=photos", "--classes=10")
QUICK = (WIDTH, "--samples=12")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


@pytest.fixture
def suggest(run: Command) -> Command:
    return lambda *arguments: run("suggest", "--quiet", *arguments)


def read(name: str) -> Any:
    return json.loads(Path(name).read_text())


def write(name: str, value: Any) -> None:
    Path(name).write_text(json.dumps(value))


def answered(name: str = "t-next.json", out: str = "results.json", **scores: Any) -> list[Any]:
    """Write results for the suggestions of a file: the depths, unless there are scores."""
    found = [
        {**own, "scores": scores or {"photos": float(own["choices"]["depth"])}}
        for own in read(name)
    ]
    write(out, found)
    return found


def begin(suggest: Command, *more: str) -> None:
    result = suggest("--table=t.json", *NEW, *QUICK, *more)
    assert result.code == 0, result.err


def test_ask_and_tell_until_the_table_is_a_benchmark(suggest: Command) -> None:
    begin(suggest, "-k", "4")
    for _ in range(3):
        before = read("t.json")
        results = answered()
        told = suggest("--table=t.json", "--add=results.json", "-k", "4", *QUICK)
        assert told.code == 0, told.err
        after = read("t.json")
        new = after["architectures"][len(before["architectures"]) :]
        assert new == [{"arch": own["choices"], "scores": own["scores"]} for own in results]
        asked = [own["choices"] for own in read("t-next.json")]
        assert after["suggested"] == asked
    assert len(load_benchmark("t.json").architectures) == 12
    every = [own["arch"] for own in after["architectures"]] + after["suggested"]
    assert len({json.dumps(own, sort_keys=True) for own in every}) == 16
    for own in read("t-next.json"):
        assert architecture_from_json(own).space == "autoformer-nano"
    assert read_architecture("t-next.json").architecture.space == "autoformer-nano"


def test_limits_hold_and_the_json_document_has_the_sizes(suggest: Command) -> None:
    result = suggest("--table=t.json", *NEW, *QUICK, "--params=20K:30K", "--json")
    assert result.code == 0, result.err
    assert result.json["labels"] == 0
    assert result.json["prior_alone"] == "fewer than 3 labels"
    assert len(result.json["suggestions"]) == 4
    for own in result.json["suggestions"]:
        architecture = SPACE.architecture(own["choices"])
        assert 20_000 <= SPACE.params(architecture, 10) == own["params"] <= 30_000
        assert SPACE.flops(architecture, 10) == own["flops"]


def test_the_first_suggestion_without_labels_is_the_proxy_s_best(suggest: Command) -> None:
    begin(suggest, "-k", "1", "--samples=40")
    from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
    from autoprox.searchspaces.size_limits import SizeLimits

    drawn = ArchitectureSampler(SizeLimits(SPACE, 10)).sample(40, random.Random(0))
    widths = [sum(block.width for block in SPACE.blocks(own)) for own in drawn]
    chosen = architecture_from_json(read("t-next.json")[0])
    assert sum(block.width for block in SPACE.blocks(chosen)) == max(widths)


def test_a_suggestion_is_the_same_twice_and_in_python(suggest: Command) -> None:
    write("own.json", table())
    text = Path("own.json").read_text()
    assert suggest("--table=own.json", *QUICK).code == 0
    first = read("own-next.json")
    Path("own.json").write_text(text)
    Path("own-next.json").unlink()
    found = autoprox.suggest(table="own.json", proxy=["sum(width)"], samples=12, progress=False)
    assert read("own-next.json") == first
    assert [own.choices for own in found.suggestions] == [own["choices"] for own in first]
    assert found.prior_alone is None


def test_lower_scores_can_be_better(suggest: Command) -> None:
    """The same labels lead elsewhere, and so do labels of the other sign and meaning not."""
    content = table(30)
    found = []
    for sign, higher in ((1, True), (-1, False), (1, False)):
        own = json.loads(json.dumps(content))
        for dataset in own["datasets"].values():
            dataset["higher_is_better"] = higher
        for entry in own["architectures"]:
            entry["scores"] = {d: sign * float(entry["arch"]["depth"]) for d in own["datasets"]}
        write("own.json", own)
        assert suggest("--table=own.json", "--proxy=none", "--samples=60").code == 0
        found.append(read("own-next.json"))
    assert found[0] == found[1] != found[2]
    best, worst = (sum(own["choices"]["depth"] for own in found[n]) for n in (0, 2))
    assert best > worst


def test_other_content_of_the_table_is_kept(suggest: Command) -> None:
    content = {**table(), "training": {"by": ["hand"]}}
    content["architectures"][0]["runs"] = {"0": [1.5]}
    write("own.json", content)
    assert suggest("--table=own.json", *QUICK).code == 0
    found = read("own.json")
    assert {**found, "suggested": None} == {**content, "suggested": None}


def test_results_that_were_not_suggested_are_added_and_said(suggest: Command) -> None:
    begin(suggest)
    results = answered()
    other = {"space": "autoformer-nano", "choices": SPACE.largest().to_json()["choices"]}
    write("results.json", [*results[:1], {**other, "scores": {"photos": 9}}])
    told = suggest("--table=t.json", "--add=results.json")
    assert told.code == 0, told.err
    assert "2 results added" in told.out
    assert "1 of these weren't suggested" in told.out
    assert len(read("t.json")["suggested"]) == 3
    assert len(read("t.json")["architectures"]) == 2


def test_results_are_added_once(suggest: Command) -> None:
    begin(suggest)
    answered()
    assert suggest("--table=t.json", "--add=results.json").code == 0
    text = Path("t.json").read_text()
    told = suggest("--table=t.json", "--add=results.json", "--json")
    assert (told.json["added"], told.json["known"]) == (0, 4)
    assert Path("t.json").read_text() == text
    answered(photos=77.0)
    told = suggest("--table=t.json", "--add=results.json")
    assert told.code == 2
    assert "must be those of t.json, which has the architecture" in told.err
    assert Path("t.json").read_text() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"photos": float("nan")}}, "[3].scores.photos must be a finite number"),
        ({"scores": {}}, "[3].scores must have the key photos"),
        ({"scores": {"photos": 1, "cats": 2}}, "unknown key [3].scores.cats"),
        ({"space": "pit-nano"}, "[3].space must be the table's, autoformer-nano"),
        ({"choices": {"depth": 1}}, "[3].choices: hidden_dim is missing"),
        ({"scores": "7"}, "[3].scores must be an object"),
    ],
)
def test_wrong_results_change_nothing(
    change: dict[str, Any], message: str, suggest: Command
) -> None:
    begin(suggest)
    results = answered()
    results[3] |= change
    Path("results.json").write_text(json.dumps(results))
    text = Path("t.json").read_text()
    told = suggest("--table=t.json", "--add=results.json")
    assert told.code == 2
    assert message in told.err
    assert told.err.count("\n") == 1
    assert Path("t.json").read_text() == text


def test_a_result_twice_in_a_file_is_refused(suggest: Command) -> None:
    begin(suggest)
    results = answered()
    write("results.json", [*results, results[0]])
    assert "for the second time" in suggest("--table=t.json", "--add=results.json").err


def test_equal_labels_are_said(suggest: Command) -> None:
    begin(suggest)
    answered(photos=5.0)
    told = suggest("--table=t.json", "--add=results.json", "-k", "2", *QUICK)
    assert told.code == 0, told.err
    assert "all labels are equal: the proxies decide alone" in told.out


def test_fewer_than_are_asked_for_and_none_left(suggest: Command) -> None:
    """There are few architectures of the smallest size."""
    smallest = SPACE.params(SPACE.smallest(), 10)
    limit = f"--params=:{smallest + 200}"
    told = suggest("--table=t.json", *NEW, *QUICK, limit, "-k", "500", "--json")
    assert told.code == 0, told.err
    short = {own["of"]: own for own in told.json["shortfalls"]}
    assert short["suggestions"]["found"] == len(told.json["suggestions"]) < 500
    text = Path("t.json").read_text(), Path("t-next.json").read_text()
    told = suggest("--table=t.json", *QUICK, limit)
    assert told.code == 2
    assert "must be left to suggest, but all" in told.err
    assert (Path("t.json").read_text(), Path("t-next.json").read_text()) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--space=autoformer-nano",), "a new table needs space and datasets, but got no datasets"),
        (("--datasets=photos",), "a new table needs space and datasets, but got no space"),
        (("--space=autoformer-nano", "--datasets=mine"), "unknown dataset 'mine'"),
        ((*NEW, "--proxy=snop"), "unknown proxy 'snop'"),
        ((*NEW, "--proxy=snip,none"), "proxy must name proxies, or be none alone"),
        ((*NEW, "--params=:1"), "must be within the limits, but none is within"),
        ((*NEW, "--add=none.json"), "none.json must be a JSON file, but there is no such file"),
        ((*NEW, "--out=photo.json"), "must be written to a new file, or to one of suggestions"),
        (("--space=autoformer-nano", "--datasets=a b", "--classes=2"), "a dataset's name must be"),
        (("--space=autoformer-nano", "--datasets=a,a", "--classes=2"), "must be named once"),
        ((*NEW, "--out=photo.json/next.json"), "out must be a file in a folder that exists"),
    ],
)
def test_wrong_beginnings_write_nothing(
    arguments: tuple[str, ...], message: str, suggest: Command, folder: Path
) -> None:
    Path("photo.json").write_text("{}")
    before = {own.name: own.read_text() for own in folder.glob("*.json")}
    told = suggest("--table=t.json", "--samples=5", *arguments)
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert message in told.err
    assert {own.name: own.read_text() for own in folder.glob("*.json")} == before


def test_a_table_that_is_there_is_of_its_own_space_and_datasets(suggest: Command) -> None:
    write("own.json", table())
    told = suggest("--table=own.json", "--space=pit-nano")
    assert told.code == 2
    assert "must be the space that was asked for, pit-nano" in told.err
    told = suggest("--table=own.json", "--datasets=photos")
    assert "datasets must be given for a new table only, but own.json is there" in told.err


def test_a_killed_write_leaves_what_was_there(
    suggest: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(suggest)
    answered()
    text = Path("t.json").read_text()

    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(atomic_writes.os, "replace", killed)
        assert suggest("--table=t.json", "--add=results.json").code != 0
    assert Path("t.json").read_text() == text
    assert suggest("--table=t.json", "--add=results.json").code == 0
    assert len(read("t.json")["architectures"]) == 4
    assert not list(Path().glob(".*.part"))


def test_killed_between_the_two_files_suggests_the_same_again(
    suggest: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoprox.benchmarks.growing_table import GrowingTable

    def killed(self: GrowingTable) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GrowingTable, "write", killed)
        assert suggest("--table=t.json", *NEW, *QUICK).code != 0
    first = read("t-next.json")
    begin(suggest)
    assert read("t-next.json") == first


def test_the_scores_of_proxies_are_measured_once(
    suggest: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    measure = MeasuredProxies.of_network

    def counted(self: MeasuredProxies, *arguments: Any) -> Any:
        calls.append(arguments)
        return measure(self, *arguments)

    monkeypatch.setattr(MeasuredProxies, "of_network", counted)
    begin(suggest)
    assert len(calls) == 12
    assert suggest("--table=t.json", *QUICK).code == 0
    assert len(calls) == 16  # and those that were drawn instead of what was suggested


def test_one_process_writes_a_table(suggest: Command) -> None:
    from autoprox.runs.folder import locked

    lock = locked(Path(), "a table", ".t.json.lock")
    told = suggest("--table=t.json", *NEW, *QUICK)
    lock.release()
    assert (told.code, "a table has one writer" in told.err) == (2, True)


def test_the_python_function_has_the_options_of_the_command() -> None:
    signature = inspect.signature(autoprox.suggest)
    fields = {name: field for name, field, _ in SuggestConfig.described()}
    assert list(signature.parameters) == list(fields)
    assert signature.parameters["table"].default is inspect.Parameter.empty
    assert signature.parameters["samples"].default == fields["samples"].default
    assert "count: Number of suggestions" in (autoprox.suggest.__doc__ or "")
    with pytest.raises(ConfigError, match="unknown option 'sample'"):
        autoprox.suggest(table="t.json", sample=3)


def test_a_full_table_of_labels_is_used(suggest: Command) -> None:
    """The suggestions' mean depth is greater with labels that are depths than with their negative.

    Nothing but labels differs.
    """
    depths = []
    for sign in (1, -1):
        content = table(40)
        for entry in content["architectures"]:
            entry["scores"] = dict.fromkeys(content["datasets"], sign * entry["arch"]["depth"])
        write("own.json", content)
        result = suggest("--table=own.json", "--proxy=params", "--samples=50", "--json")
        assert result.code == 0, result.err
        assert result.json["proxies"] == ["params"]
        depths.append(sum(own["choices"]["depth"] for own in result.json["suggestions"]))
    assert depths[0] > depths[1]
