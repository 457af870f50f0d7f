"""Proxies side by side, against scipy and against proxies evaluated on their own."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.commands import Command
from helpers.records import proxy_record, record
from helpers.tables import table
from scipy.stats import kendalltau, pearsonr, spearmanr

from autoprox.benchmarks import load_benchmark
from autoprox.commands.rank import CorrelationIntervals, EvolvedProxyOverlap, RankSummary, RankTask
from autoprox.configurations.commands import RankConfig
from autoprox.configurations.shared_options import names
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import ConfigError, MeasurementError, RunError
from autoprox.evaluation import proxy_measurement as proxies_module
from autoprox.evaluation.proxy_measurement import SIZE_PROXIES, requested_proxy_names
from autoprox.evaluation.proxy_training_split import evolved_on_architectures
from autoprox.inputs.batch_loading import load_batches
from autoprox.report.terminal.rank_report import UNEQUAL, as_csv, rank_report
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run
from autoprox.runs.proxy_file import write_proxy
from autoprox.scoring.bootstrap import split_networks
from autoprox.searchspaces import TransformerNetwork, get_space
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo import PROXIES as PUBLISHED
from autoprox.zoo.functions import measure_function_proxies
from autoprox.zoo.proxy_loading import resolve_proxy

MIXED = "rank(add(rank(snip), sum(width)))"
PROXIES = ("params", "snip", "dss++", MIXED, "naswot")
SPACE = get_space("autoformer-nano")
ARCHITECTURES = [SPACE.architecture(row["arch"]) for row in table()["architectures"]]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "mine.json"
    path.write_text(json.dumps(table()))
    return path


def config(benchmark: Path, **changed: Any) -> RankConfig:
    given = {"proxies": PROXIES, "benchmark": str(benchmark), "batch_size": 2, "seeds": 2}
    return RankConfig(**{**given, **changed})


@pytest.fixture(scope="module")
def summary(benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> RankSummary:
    return start(config(benchmark, runs=tmp_path_factory.mktemp("runs")))


@cache
def independent(proxy: str, seed: int) -> dict[str, Sequence[float]]:
    """The scores of all networks on each dataset, from all networks at once."""
    classes = {"wide": 10, "deep": 4}
    batches = load_batches(SPACE, classes, batch_size=2, seed=seed)
    if proxy == "params":
        return {d: [SPACE.params(a, count) for a in ARCHITECTURES] for d, count in classes.items()}
    networks = untrained_space_networks(SPACE, ARCHITECTURES, seed)
    if proxy != "naswot":
        engine = TreeEvaluator(UncachedMatrices(MeasurementSetting(batches), networks))
        values = engine.evaluate([resolve_proxy(proxy).tree]).values[0]
        return dict(zip(classes, values, strict=True))
    found: dict[str, list[float]] = {dataset: [] for dataset in classes}
    for dataset, network in product(classes, networks):
        built = SPACE.build(network.architecture, classes[dataset], network.seed)
        found[dataset].append(
            measure_function_proxies(built, batches[dataset], [proxy], seed)[proxy]
        )
    return dict(found)


class Strict(NamedTuple):
    statistic: float


def strict_tau(scores: Sequence[float], truth: Sequence[float]) -> Strict:
    """Tau-b times the root of the share of untied pairs of scores."""
    pairs = list(combinations(scores, 2))
    share = sum(one != other for one, other in pairs) / len(pairs)
    return Strict(kendalltau(scores, truth).statistic * math.sqrt(share))


def test_rows_are_means_and_deviations_over_seeds(summary: RankSummary) -> None:
    truth = {
        dataset: [row["scores"][dataset] for row in table()["architectures"]]
        for dataset in ("wide", "deep")
    }
    assert len(summary.rows) == len(PROXIES) * 2
    for row in summary.rows:
        scores = [independent(row.proxy, seed)[row.dataset] for seed in (0, 1)]
        for name, function in (
            ("kendall", strict_tau),
            ("spearman", spearmanr),
            ("pearson", pearsonr),
        ):
            each = [function(own, truth[row.dataset]).statistic for own in scores]
            assert getattr(row, name) == pytest.approx(np.mean(each), abs=1e-6)
            assert getattr(row.std, name) == pytest.approx(np.std(each), abs=1e-6)
            low, high = getattr(row.interval, name)
            assert low <= getattr(row, name) <= high
        assert row.invalid == 0
    assert summary.invalid == {}


def test_rows_are_ordered_by_kendall(summary: RankSummary) -> None:
    for dataset in ("wide", "deep"):
        taus = [row.kendall for row in summary.rows if row.dataset == dataset]
        assert taus == sorted(taus, reverse=True)


def test_all_files_of_the_run_have_the_same_rows(summary: RankSummary) -> None:
    run = Path(summary.run)
    assert json.loads((run / "summary.json").read_text())["rows"] == summary.to_json()["rows"]
    found = list(csv.DictReader(io.StringIO((run / "table.csv").read_text())))
    assert [row["proxy"] for row in found] == [row.proxy for row in summary.rows]
    for line, row in zip(found, summary.rows, strict=True):
        assert float(line["kendall"]) == row.kendall
        assert float(line["pearson_high"]) == row.interval.pearson[1]
        assert line["spearman_published"] == ""
    markdown = (run / "table.md").read_text()
    for row in summary.rows:
        assert f"| `{row.proxy}` | {row.kendall:.3f} ± {row.std.kendall:.3f} |" in markdown


def test_published_correlations_are_shown_if_requested(
    summary: RankSummary, benchmark: Path, tmp_path: Path
) -> None:
    """No paper reports any for this benchmark."""
    assert summary.published is None
    found = start(config(benchmark, seeds=1, published=True, runs=tmp_path))
    assert not found.published.rows
    assert set(found.published.without) == {row.proxy for row in found.rows}
    markdown = (Path(found.run) / "table.md").read_text()
    assert markdown.endswith("No paper reports a figure for these networks.\n")


def test_a_killed_ranking_is_resumed(
    summary: RankSummary, benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks in the log aren't measured again; that of a truncated line is."""
    first = start(config(benchmark, seeds=1, runs=tmp_path))
    run = Path(first.run)
    (run / "summary.json").unlink()
    lines = (run / "log.jsonl").read_bytes().splitlines(keepends=True)
    (run / "log.jsonl").write_bytes(b"".join(lines[:7]) + lines[7][:20])
    measure = RankTask._measure
    measured: list[int] = []

    def counted(ranking: Any, seed: int, networks: Sequence[int], take: Any) -> None:
        measured.extend(networks)
        measure(ranking, seed, networks, take)

    monkeypatch.setattr(RankTask, "_measure", counted)
    again = resume_run(run, workers=1)
    assert measured == list(range(7, 12))
    assert again.rows == first.rows
    assert resume_run(run).rows == first.rows
    assert measured == list(range(7, 12))


def test_a_proxy_is_ranked_on_the_networks_for_which_it_has_a_value(
    benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepest = max(range(12), key=lambda i: (ARCHITECTURES[i]["depth"], i))
    count = len(SPACE.blocks(ARCHITECTURES[deepest]))

    def some(network: TransformerNetwork, *given: object) -> Any:
        depth = len(network.transformer_blocks)
        return {"naswot": float("nan") if depth == count else float(depth), "grasp": np.inf}

    monkeypatch.setattr(proxies_module, "measure_function_proxies", some)
    names = ("naswot", "grasp", "params")
    found = start(config(benchmark, proxies=names, seeds=1, runs=tmp_path))
    left_out = sum(arch["depth"] == count for arch in ARCHITECTURES)
    assert found.invalid == {
        "naswot": {"not finite": left_out},
        "grasp": {"not finite": 12},
    }
    rows = {(row.proxy, row.dataset): row for row in found.rows}
    rest = [i for i in range(12) if ARCHITECTURES[i]["depth"] != count]
    truth = [table()["architectures"][i]["scores"]["deep"] for i in rest]
    expected = strict_tau([ARCHITECTURES[i]["depth"] for i in rest], truth).statistic
    assert rows["naswot", "deep"].kendall == pytest.approx(expected)
    assert rows["naswot", "deep"].invalid == left_out
    none = (None, None)
    assert rows["grasp", "deep"].kendall is None
    assert rows["grasp", "deep"].interval == CorrelationIntervals(
        kendall=none, spearman=none, pearson=none
    )
    assert found.rows[-1].proxy == "grasp"
    assert as_csv(found.rows).count("\n") == 7
    assert set(found.means) == {"naswot", "params"}


def test_a_network_that_fails_is_left_out_of_all(
    benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build: Callable[..., Any] = type(SPACE).build
    broken = ARCHITECTURES[3]

    def fail(space: Any, arch: Any, *args: Any, **options: Any) -> Any:
        if arch == broken:
            raise RuntimeError("bad shape")
        return build(space, arch, *args, **options)

    monkeypatch.setattr(type(SPACE), "build", fail)
    found = start(config(benchmark, seeds=1, runs=tmp_path))
    assert found.invalid == {proxy: {"network failed": 1} for proxy in PROXIES}
    left = [n for n in range(12) if n != 3]
    truth = np.array([entry["scores"]["deep"] for entry in table()["architectures"]])[left]
    params = [SPACE.params(ARCHITECTURES[n], 4) for n in left]
    expected = strict_tau(params, truth).statistic
    [row] = [r for r in found.rows if (r.proxy, r.dataset) == ("params", "deep")]
    assert row.kendall == pytest.approx(expected)
    assert found.baselines["params"]["deep"].kendall == pytest.approx(expected)
    shown = " ".join(str(part) for part in rank_report(found))
    assert "left out" in shown
    assert UNEQUAL not in shown


def test_proxies_compared_on_different_networks_are_reported(summary: RankSummary) -> None:
    left_out = summary.model_copy(update={"invalid": {"naswot": {"not finite": 1}}})
    assert UNEQUAL in " ".join(str(part) for part in rank_report(left_out))


@pytest.mark.parametrize("workers", [1, 2])
def test_networks_that_all_fail(
    benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("bad shape")

    monkeypatch.setattr(type(SPACE), "build", fail)
    with pytest.raises(MeasurementError, match=r"at least two .*: RuntimeError: bad shape"):
        start(config(benchmark, seeds=1, workers=workers, runs=tmp_path))


def test_too_little_memory_stops_the_ranking_and_is_measured_again(
    summary: RankSummary, benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build: Callable[..., Any] = type(SPACE).build

    def fail(space: Any, arch: Any, *args: Any, **options: Any) -> Any:
        if arch == ARCHITECTURES[9]:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: 7 bytes")
        return build(space, arch, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(SPACE), "build", fail)
        with pytest.raises(MemoryError):
            start(config(benchmark, runs=tmp_path))
    [run] = tmp_path.iterdir()
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert records
    assert not [record for record in records if record["failure"]]
    recorded = {**records[2], "failure": "MemoryError: no message"}
    lines = [*records[:2], recorded, *records[3:]]
    (run / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = resume_run(run)
    assert found.invalid == {}
    assert found.rows == summary.rows


def test_named_proxies() -> None:
    assert requested_proxy_names(["snip", "all", "snip"])[0] == "snip"
    assert set(requested_proxy_names(["all"])) == {*SIZE_PROXIES, *PUBLISHED}
    assert {"params", "snip", "ntsr", "grasp", "activation_distance"} <= {*SIZE_PROXIES, *PUBLISHED}
    with pytest.raises(ConfigError, match=r"unknown proxy 'snpi' \(did you mean snip\?\); choose"):
        requested_proxy_names(["snpi"])
    with pytest.raises(ConfigError, match="unknown proxy ''"):
        requested_proxy_names([""])
    assert names("snip, add(rank(ntkt), rank(sept)),dss") == (
        "snip",
        "add(rank(ntkt), rank(sept))",
        "dss",
    )


def test_another_commands_run_is_refused(summary: RankSummary, run: Command) -> None:
    with pytest.raises(
        RunError,
        match=r"in a run of `autoprox evolve` or `autoprox rediscover`, but .* `autoprox r",
    ):
        resolve_proxy(summary.run)
    result = run("resume", summary.run, "--memory", "1GiB")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert (
        "keeps its own configuration but for workers, backend, scheduler, but got memory"
        in result.err
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs, with a benchmark."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_command(run: Command) -> None:
    call = ("rank", "--benchmark", "mine.json", "--proxies", f"snip,params,{MIXED}")
    shown = run(*call, "--datasets", "deep")
    assert shown.code == 0
    assert "Ken-" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    document = run(*call, "--json").json
    assert {row["proxy"] for row in document["rows"]} == {"snip", "params", MIXED}
    again = run("resume", document["run"], "--json").json
    assert again == document


TABLE = ["--benchmark", "mine.json"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--proxies", "snpi"], "unknown proxy 'snpi' (did you mean snip?)"),
        (["--proxies", "sum(witdh)"], "column 5: unknown name `witdh`"),
        (["--proxies", "new.json"], "must be at most 1 for this autoprox"),
        (["--proxies", "none.json"], "none.json"),
        (["--proxies", "abs(width)"], "a proxy is a Network, got Layers[block]"),
        ([*TABLE, "--networks", "13"], "networks must be from 10 to 12, all there are, but got 13"),
        ([*TABLE, "--networks", "2"], "networks must be from 10 to 12,"),
        (["--networks", "0"], "networks must be a whole number >= 1, but got 0"),
        (["--seeds", "0"], "seeds must be a whole number >= 1, but got 0"),
        (["--benchmark", "mine.json", "--datasets", "tall"], "has no dataset 'tall'"),
        (["--text", "mine.json"], "autoformer-nano takes images, which text mine.json is not for"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    run: Command, arguments: list[str], message: str
) -> None:
    Path("new.json").write_text('{"version": 2}')
    result = run("rank", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not Path("runs").exists()


def discovery(folder: Path, split_seed: int, train: float, **changes: int) -> str:
    """A run of evolve on the table, whose proxy file records the split."""
    table_of = {"benchmark": "mine", "space": "autoformer-nano"}
    split = {**table_of, "subset": "main", "split_seed": split_seed, "train": train}
    found = {**record()["found"], **table_of, "evolved_on": [{"networks": 12, **split, **changes}]}
    with Run.create(folder, f"evolved{split_seed}", {"kind": "evolve", **split}) as run:
        run.write_proxies([proxy_record(expression="sum(width)", found=found)])
        return str(run.path)


def test_networks_that_a_proxy_was_evolved_on_are_reported(benchmark: Path, tmp_path: Path) -> None:
    """They are those of the split in a proxy file, in a run or alone; the oracle is scipy."""
    own = discovery(tmp_path / "discoveries", 3, 0.5)
    copied = str(tmp_path / "copied.json")
    Path(copied).write_text((Path(own) / "hall_of_fame" / "1.json").read_text())
    given = {"proxies": (own, copied, "snip", "params"), "seeds": 1, "runs": tmp_path}
    found = start(config(benchmark, **given))
    train, test = split_networks(12, 3, 0.5)
    widths = np.array([a["hidden_dim"] * a["depth"] for a in ARCHITECTURES])
    truth = [[row["scores"][d] for row in table()["architectures"]] for d in ("wide", "deep")]
    assert list(found.evolved_on) == [own, copied]
    for name, seen in found.evolved_on.items():
        assert (seen.networks, seen.others) == (len(train), len(test)) == (6, 6)
        taus = [strict_tau(widths[test], np.array(t)[test]).statistic for t in truth]
        assert seen.on_others.kendall == pytest.approx(np.mean(taus))
        text = f"{name} was evolved on 6 of the 12 networks; its Kendall tau on the other 6: "
        assert text in " ".join(map(str, rank_report(found)))
        assert text in Path(found.run, "table.md").read_text()


def test_networks_of_a_sample_are_known_in_the_whole_table(benchmark: Path, tmp_path: Path) -> None:
    """A proxy that was evolved on a sample has seen its training networks, however it is ranked."""
    own = discovery(tmp_path / "discoveries", 3, 0.5, networks=10, sample=10)
    sample = load_benchmark(benchmark, networks=10).architectures
    seen = {sample[n] for n in split_networks(10, 3, 0.5)[0]}
    for networks in (None, 11, 10):
        given = {"proxies": (own,), "seeds": 1, "runs": tmp_path, "networks": networks}
        asked = config(benchmark, **given)
        ranked = load_benchmark(benchmark, networks=networks)
        assert set(evolved_on_architectures(own, asked, ranked)) == seen
        assert seen <= set(ranked.architectures)
    other = discovery(tmp_path / "discoveries", 4, 0.5, networks=500, sample=500)
    assert not evolved_on_architectures(other, config(benchmark), load_benchmark(benchmark))


def test_networks_of_another_benchmark_are_all_unseen(benchmark: Path, tmp_path: Path) -> None:
    own = discovery(tmp_path / "discoveries", 3, 0.5)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**table(), "name": "other"}))
    longer = tmp_path / "mine.json"
    longer.write_text(json.dumps(table(13)))
    for file in (other, longer):
        found = start(config(file, proxies=(own, "params"), seeds=1, runs=tmp_path))
        assert found.evolved_on == {}


def test_a_proxy_of_another_space_is_reported(benchmark: Path, tmp_path: Path) -> None:
    files = {name: str(tmp_path / f"{name}.json") for name in ("own", "other")}
    for name, space in (("own", "pit-nano, autoformer-nano"), ("other", "pit-nano")):
        found = {**record()["found"], "space": space}
        write_proxy(Path(files[name]), proxy_record(expression="sum(width)", found=found))
    ranked = start(config(benchmark, proxies=(*files.values(), "snip"), seeds=1, runs=tmp_path))
    assert ranked.found_on == {files["other"]: "pit-nano"}
    shown = "".join("".join(map(str, rank_report(ranked))).split())  # long paths are broken
    assert shown.count("foundonanotherspace") == 1
    assert f"{files['other']}wasfoundonanotherspace,pit-nano." in shown


def test_too_few_other_networks_have_no_tau(benchmark: Path, tmp_path: Path) -> None:
    own = discovery(tmp_path / "discoveries", 0, 0.9)
    found = start(config(benchmark, proxies=(own,), seeds=1, runs=tmp_path))
    assert found.evolved_on[own] == EvolvedProxyOverlap(networks=11, others=1, on_others=None)
    assert "there are too few others for a tau" in " ".join(map(str, rank_report(found)))
