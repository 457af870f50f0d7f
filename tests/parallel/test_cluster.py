"""A scheduler with two worker processes on this machine: the same results as without them."""

import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from helpers.calls import die, fail, faults, linger
from helpers.commands import Command
from helpers.images import save_images
from helpers.tables import table

from autoprox.cli.command_factory import StoppedError, call_with_progress
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.errors import MeasurementError
from autoprox.files.atomic_writes import write_json
from autoprox.inputs.training_datasets import load_images
from autoprox.oneshot.supernet.inherited_accuracy import inherited_accuracies
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.parallel import dask_cluster
from autoprox.parallel.dask_cluster import ClusterError
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.progress import Progress
from autoprox.runner import start
from autoprox.searchspaces import get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.statistics.collector import MeasurementSetting

pytestmark = pytest.mark.filterwarnings(  # dask's own, of what it starts and stops
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
SPACE = get_space("autoformer-nano")
COMMON: dict[str, dict[str, Any]] = {
    "evolve": {
        **{"batch_size": 2, "statistics": ("all.weight", "mlp.grad"), "zoo": ("snip", "naswot")},
        **{"population": 4, "iterations": 2, "children": 2, "max_size": 8},
    },
    "rank": {"proxies": ("snip", "naswot", "rank(sum(width))"), "batch_size": 2},
    "search": {"space": SPACE.name, "dataset": "cifar10", "proxy": "snip", "samples": 6},
    "build": {"space": SPACE.name, "samples": 10, "seeds": 1, "epochs": 1},
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a scheduler with two worker processes; a call that two of them died of is given up."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 1}),
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
                silence_logs=50,
            ) as here,
        ):
            yield here.scheduler_address


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What is done, with nothing measured before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "mine.json", table())
    save_images(tmp_path / "photos.npz")
    mine = {"benchmark": "mine.json"}
    given = {"evolve": mine, "rank": mine, "build": {"images": ("photos.npz",)}, "search": {}}
    return {kind: {**own, **given[kind]} for kind, own in COMMON.items()}


def found(kind: str, options: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """What a run finds, without times and places."""
    given = {**options, **changed}
    if kind == "build":
        given["out"] = f"table{len(list(Path().glob('*.parts')))}.json"
    summary = start(CONFIGURATIONS[kind](**given)).to_json()
    timed = ("run", "seconds", "core_hours", "file", "name")
    return {name: value for name, value in summary.items() if name not in timed}


@pytest.mark.parametrize("kind", COMMON)
def test_a_cluster_finds_the_same(
    kind: str, options: dict[str, Any], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of its own for each, for what is known isn't measured."""
    local = found(kind, options[kind])
    monkeypatch.setenv("XDG_CACHE_HOME", "other")
    assert found(kind, options[kind], backend="dask", scheduler=address) == local


def test_subnets_are_worth_the_same(address: str, tmp_path: Path) -> None:
    save_images(tmp_path / "photos.npz")
    data = load_images(tmp_path / "photos.npz", SPACE.input_shape)
    supernet, chosen = (
        Supernet(SPACE, data.classes, seed=3),
        ArchitectureSampler(SizeLimits(SPACE, 10)).sample(6, Random(1)),
    )
    expected = inherited_accuracies(supernet, data, chosen)
    with WorkerPool(scheduler=address) as pool:
        assert inherited_accuracies(supernet, data, chosen, pool=pool) == expected


def here(workers: int) -> Any:
    """A scheduler in this process, whose workers are threads."""
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )


def test_a_scheduler_without_workers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "WORKERS_TIMEOUT", 0.2)
    with here(0) as own:
        rule = rf"must have workers \(`dask worker {own.scheduler_address}` starts one\), but"
        with pytest.raises(ClusterError, match=rule), WorkerPool(scheduler=own.scheduler_address):
            pass


def quick(item: int) -> int:
    return item


def test_items_that_take_little_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, and never more than MOST."""
    monkeypatch.setattr(dask_cluster, "MAX_ITEMS", 5)
    taken: list[int] = []
    with here(1) as own, WorkerPool(scheduler=own.scheduler_address) as pool:
        client = dask_cluster.CLIENTS[own.scheduler_address]
        sent, submit = [], client.submit
        monkeypatch.setattr(client, "submit", lambda *a, **k: sent.append(a) or submit(*a, **k))
        pool.each(quick, range(200), taken.append)
    assert taken == list(range(200))
    messages = [len(pickle.loads(arguments[3])) for arguments in sent[1:]]
    assert messages[:8] == [1] * 8
    assert (sum(messages), max(messages)) == (200, 5)


def wait(item: int) -> int:
    time.sleep(0.1)
    return item


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_workers_keep_memory_that_is_freed(address: str) -> None:
    found: list[int] = []
    with WorkerPool(scheduler=address) as pool:
        pool.each(faults, [0], found.append)
    assert found[0] < 10_000  # of 51,200 pages


def test_a_scheduler_that_goes_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    taken: list[int] = []
    with (
        here(1) as own,
        WorkerPool(scheduler=own.scheduler_address) as pool,
        pytest.raises(ClusterError, match="the scheduler must go on to the end, but it went"),
    ):
        pool.each(wait, range(100), lambda item: taken.append(item) or own.close())
    assert 0 < len(taken) < 100
    assert capfd.readouterr().err == ""


def test_errors_of_calls_are_those_of_the_program(address: str) -> None:
    taken: list[int] = []
    with (
        WorkerPool(scheduler=address) as pool,
        pytest.raises(MeasurementError, match="no such thing"),
    ):
        pool.each(fail, [0, 1, 2], taken.append)
    assert taken == [0]


def test_what_workers_cannot_import_is_named(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def double(item):\n    return 2 * item\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from only_here import double

    rule = "workers must be able to import what they are to call, .*No module named 'only_here'"
    with WorkerPool(scheduler=address) as pool, pytest.raises(ClusterError, match=rule):
        pool.each(double, [1], print)


def test_workers_of_other_versions_do_nothing(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {**dask_cluster.required_versions(), "torch": "1.0"}
    monkeypatch.setattr(dask_cluster, "required_versions", lambda: known)
    rule = rf"must have this program's versions, but one has torch {torch.__version__} for 1\.0"
    with (
        WorkerPool(scheduler=address) as pool,
        pytest.raises(ClusterError, match=rule.replace("+", r"\+")),
    ):
        pool.each(fail, [0], print)


def test_machines_share_statistics(
    options: dict[str, Any], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers write them there; another machine, without them, then measures nothing anew."""
    shared = {**options["evolve"], "cache": f"file://{tmp_path}/shared", "zoo": ("none",)}
    first = found("evolve", shared, backend="dask", scheduler=address)
    files = list((tmp_path / "shared" / "statistics").glob("??/*"))
    assert len(files) > 10
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    measured: list[object] = []
    measure = MeasurementSetting.measure
    monkeypatch.setattr(
        MeasurementSetting,
        "measure",
        lambda self, *a: measured.append(self.stride) or measure(self, *a),
    )
    again = found("evolve", {**shared, "iterations": 2})
    assert again == first
    collected = [path for path in (tmp_path / "other").rglob("??/*") if path.is_file()]
    assert sorted(path.name for path in collected) == sorted(path.name for path in files)


WRONG = {
    "no scheduler": (("--backend", "dask", "--scheduler", "127.0.0.1:9"), 1, "none does at 127"),
    "no address": (("--backend", "dask", "--scheduler", "nowhere"), 2, "must be HOST:PORT"),
    "no port": (("--backend", "dask", "--scheduler", "tcp://a:b"), 2, "must be HOST:PORT"),
    "dask alone": (("--backend", "dask"), 2, "needs a scheduler, but got"),
    "local": (("--scheduler", "127.0.0.1:9"), 2, "and no other, needs a scheduler"),
    "unknown": (("--backend", "ray"), 2, "unknown backend 'ray'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_a_line(run: Command, case: str, options: dict[str, Any]) -> None:
    given, code, message = WRONG[case]
    result = run("search", "--space", SPACE.name, "--proxy", "snip", "--samples", "2", *given)
    assert (result.code, result.err.count("\n")) == (code, 1), result.err
    assert message in result.err
    assert not Path("runs").exists()


def test_slices_are_not_spread(run: Command) -> None:
    given = ("--weights", "inherited", "--backend", "dask", "--scheduler", "127.0.0.1:9")
    result = run("search", "--space", SPACE.name, "--proxy", "snip", *given)
    assert result.code == 2
    assert "must have fresh or shared weights" in result.err


def test_a_missing_extra_is_named(
    run: Command, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    given = ("--backend", "dask", "--scheduler", "127.0.0.1:9")
    result = run("search", "--space", SPACE.name, "--proxy", "snip", *given)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "pip install 'autoprox[distributed]'" in result.err


def test_a_worker_that_is_killed_changes_nothing(options: dict[str, Any], address: str) -> None:
    local, killed = found("search", options["search"]), []

    def kill(task: str, done: int, total: int, note: str) -> None:
        if task == "search" and done == 2 and not killed:
            workers = list(dask_cluster.CLIENTS[address].run(os.getpid).values())
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    config = CONFIGURATIONS["search"](**options["search"], backend="dask", scheduler=address)
    summary = start(config, kill).to_json()
    assert len(killed) == 1
    assert {name: summary[name] for name in local} == local


def test_a_call_that_kills_its_workers_is_an_error(address: str) -> None:
    """joblib's own backend waits forever."""
    with (
        WorkerPool(scheduler=address) as pool,
        pytest.raises(ClusterError, match="must survive a call, but several died"),
    ):
        pool.each(die, [1], print)


@contextmanager
def worker(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process that nothing starts again."""
    program = "from distributed.cli.dask_worker import main; main()"
    options = ("--no-nanny", "--nthreads=1", "--no-dashboard", "--worker-port=0")
    paths = os.pathsep.join(["tests", os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", program, address, *options],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 2)
    monkeypatch.setattr(dask_cluster, "LOOK", 0.2)


NONE_LEFT = "a scheduler must have a worker to go on, but has had none for 2 seconds"


def test_calls_end_some_time_after_the_last_worker(impatient: None) -> None:
    """dask waits for ever."""
    taken: list[None] = []
    with (
        here(0) as own,
        worker(own.scheduler_address) as process,
        WorkerPool(scheduler=own.scheduler_address) as pool,
        pytest.raises(ClusterError, match=NONE_LEFT),
    ):
        pool.each(linger, [0.1] * 20, lambda item: taken.append(item) or process.kill())
    assert 0 < len(taken) < 20


def test_a_worker_that_comes_in_time_goes_on(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 30)
    taken: list[None] = []
    with here(0) as own, ExitStack() as stack:
        first = stack.enter_context(worker(own.scheduler_address))

        def take(item: None) -> None:
            if not taken:
                first.kill()
                first.wait()
                stack.enter_context(worker(own.scheduler_address))
            taken.append(item)

        with WorkerPool(scheduler=own.scheduler_address) as pool:
            pool.each(linger, [0.1] * 20, take)
    assert len(taken) == 20


def test_a_call_that_takes_long_is_waited_for(impatient: None) -> None:
    """Longer than the patience: its worker is there."""
    taken: list[None] = []
    with here(1) as own, WorkerPool(scheduler=own.scheduler_address) as pool:
        pool.each(linger, [3], taken.append)
    assert taken == [None]


def test_a_run_without_workers_is_resumed(
    options: dict[str, Any], impatient: None, run: Command
) -> None:
    local = found("search", options["search"])
    with here(0) as own, worker(own.scheduler_address) as process:

        def kill(task: str, done: int, total: int, note: str) -> None:
            if task == "search" and done == 2:
                process.kill()

        given = {"backend": "dask", "scheduler": own.scheduler_address, "runs": "stopped"}
        with pytest.raises(ClusterError, match=NONE_LEFT):
            start(CONFIGURATIONS["search"](**options["search"], **given), kill)
    [left] = Path("stopped").iterdir()
    summary = run("resume", str(left), "--backend", "local", "--json").json
    assert {name: summary[name] for name in local} == local


def test_the_error_says_how_to_go_on() -> None:
    def call(progress: Progress) -> dict[str, Any]:
        progress("run", 0, 0, "runs/mine")
        raise ClusterError(NONE_LEFT)

    with pytest.raises(
        StoppedError, match=f"{NONE_LEFT}; `autoprox resume runs/mine` continues it$"
    ):
        call_with_progress(call, quiet=True)
