"""The fuzz targets of what is in a run's folder, in the cache, and of installed packages' names."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from helpers import hostile
from helpers.fuzz_targets import (
    SMALL,
    StopError,
    Target,
    command,
    dumped,
    several,
    stop_at_work,
    target,
)
from helpers.tables import table


def small_runs() -> dict[str, Any]:
    """A configuration of each kind that makes a run in little time."""
    from autoprox.configurations.commands import (
        EvolveConfig,
        RankConfig,
        RediscoverConfig,
        SearchConfig,
    )

    Path("mine.json").write_bytes(dumped(table()))
    Path("other.json").write_bytes(dumped({**table(20), "name": "other"}))
    own: dict[str, Any] = {"benchmark": "mine.json", **SMALL}
    size: dict[str, Any] = {"population": 4, "iterations": 2, "cache": "cache"}
    return {
        "evolve": EvolveConfig(**own, **size, statistics=("msa.weight",), zoo=("none",)),
        "spaces": EvolveConfig(
            spaces=("mine.json", "other.json"),
            **size,
            **SMALL,
            statistics=("msa.weight",),
            zoo=("none",),
            halving=False,
        ),
        "rank": RankConfig(**own, proxies=("l2_norm", "params")),
        "search": SearchConfig(space="autoformer-nano", proxy="l2_norm", samples=4, **SMALL),
        "rediscover": RediscoverConfig(proxy="l2_norm", cache="cache", seconds=2.0),
    }


def begun(kind: str) -> Path:
    """A run that was stopped before its work."""
    from autoprox.runner import start

    before = set(Path("runs").glob("*"))
    with suppress(StopError):
        start(small_runs()[kind], stop_at_work)
    [path] = set(Path("runs").glob("*")) - before
    return path


def finished(kind: str) -> Path:
    """A run that has ended, and isn't changed by what is read of it."""
    from autoprox.runner import start

    return Path(start(small_runs()[kind]).run)


def put(path: Path, name: str, content: bytes) -> Path:
    """A copy of a run, which may be spoilt, with another content of one file."""
    copy = Path("copies", path.name)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    (copy / name).write_bytes(content)
    return copy


def resumed(path: Path) -> None:
    """Go on with a run, as far as its work."""
    from autoprox.runner import resume_run

    with suppress(StopError):
        resume_run(path, stop_at_work)


def read_by(path: Path, name: str, *readers: Callable[[Path], object]) -> Target:
    """A file of a run, which is put into copies and read there."""

    def read(content: bytes) -> None:
        copy = put(path, name, content)
        several(*(lambda reader=reader: reader(copy) for reader in readers))

    return Target([(path / name).read_bytes()], read)


def looked_at(path: Path) -> None:
    """All ways to show a run."""
    from autoprox.loaded_runs import load_run

    def loaded() -> None:
        run = load_run(path)
        run._repr_html_()
        run._repr_latex_()

    several(
        command("show", path, path),
        command("runs", path.parent),
        command("report", path, "--out", "page.html"),
        loaded,
    )
    if Path("page.html").exists():
        assert "<script>alert" not in Path("page.html").read_text(encoding="utf-8")


@target
def config() -> Target:
    path = begun("rank")
    others = [(begun(kind) / "config.json").read_bytes() for kind in ("evolve", "search")]
    made = read_by(path, "config.json", resumed, looked_at)
    return made._replace(seeds=[*made.seeds, *others])


@target
def environment() -> Target:
    return read_by(begun("rank"), "environment.json", resumed, looked_at)


@target
def checkpoint() -> Target:
    """Of an evolution on one space."""
    return forged("evolve")


@target
def checkpoint_of_spaces() -> Target:
    """Of an evolution on several, after all its folds."""
    return forged("spaces")


def forged(kind: str) -> Target:
    """A checkpoint with its checksum put right, for whoever forges one does that too."""
    from autoprox.files.atomic_writes import to_json
    from autoprox.runner import resume_run
    from autoprox.runs.folder import digest_of

    path = finished(kind)
    (path / "summary.json").unlink()
    state = json.loads((path / "checkpoint.json").read_bytes())["state"]

    def read(content: bytes) -> None:
        try:
            text = to_json(json.loads(content))
            content = dumped({"sha256": digest_of(text), "state": json.loads(text)})
        except (ValueError, RecursionError):
            pass
        resume_run(put(path, "checkpoint.json", content))

    return Target([dumped(state)], read)


@target
def log() -> Target:
    from autoprox.loaded_runs import load_run
    from autoprox.runner import resume_run

    path = finished("rank")
    (path / "summary.json").unlink()

    def read(content: bytes) -> None:
        copy = put(path, "log.jsonl", content)
        several(
            lambda: load_run(copy).log,
            command("report", copy, "--out", "page.html"),
            lambda: resume_run(copy),
        )

    return Target([(path / "log.jsonl").read_bytes()], read, hostile.mutate_lines)


@target
def candidates() -> Target:
    from autoprox.loaded_runs import load_run
    from autoprox.runner import resume_run

    path = finished("search")
    (path / "summary.json").unlink()

    def read(content: bytes) -> None:
        copy = put(path, "candidates.jsonl", content)
        several(
            lambda: load_run(copy).candidates,
            command("report", copy, "--out", "page.html"),
            lambda: resume_run(copy),
        )

    return Target([(path / "candidates.jsonl").read_bytes()], read, hostile.mutate_lines)


@target
def evaluations() -> Target:
    """Those of a search, and those of an S3 round."""
    from autoprox.inputs.training_datasets import load_images
    from autoprox.oneshot.s3.subnet_search import SubnetEvaluator
    from autoprox.oneshot.supernet.shared_weights import Supernet
    from autoprox.searchspaces import get_space
    from helpers.images import save_images

    space, rng = get_space("autoformer-nano"), Random(0)
    data = load_images(save_images(Path("photos.npz"), 12, 3, 8), space.input_shape)
    architectures = [space.sample(rng) for _ in range(3)]
    net = Supernet(space, data.classes)

    def read(content: bytes) -> None:
        file = Path("evaluations.jsonl")
        file.write_bytes(content)
        SubnetEvaluator(net, data, file, limit=2).errors(architectures)

    lines = [{"arch": a.to_json()["choices"], "accuracy": 50.0} for a in architectures]
    seed = b"".join(dumped(line) + b"\n" for line in lines)
    return Target([seed], read, hostile.mutate_lines)


@target
def summary() -> Target:
    """With its digest put right: of a run of a stranger it agrees."""
    from autoprox.files.atomic_writes import to_json
    from autoprox.runs.folder import digest_of

    paths = {kind: finished(kind) for kind in ("rank", "evolve", "search")}

    def read(content: bytes) -> None:
        try:
            text = to_json(json.loads(content))
        except (ValueError, RecursionError):
            text = ""
        several(*(lambda path=path: shown(path, content, text) for path in paths.values()))

    def shown(path: Path, content: bytes, text: str) -> None:
        copy = put(path, "summary.json", content)
        known = json.loads((copy / "environment.json").read_bytes())
        (copy / "environment.json").write_bytes(dumped({**known, "summary": digest_of(text)}))
        several(lambda: looked_at(copy), command("resume", copy))

    return Target([(path / "summary.json").read_bytes() for path in paths.values()], read)


@target
def cache() -> Target:
    """A statistic's file: it is measured again, or refused, and its matrices are read."""
    from autoprox.language import STATISTICS
    from helpers.measuring import Conditions, cached
    from helpers.networks import SPACE, noise, tiny

    given, networks = Conditions(SPACE, {"few": noise(4)}), [tiny(8, (1, 2.0)), tiny(7, (2, 1.0))]
    needs = {STATISTICS["msa.weight"], STATISTICS["mlp.act"]}

    def visited() -> None:
        source = cached(given, networks, needs, folder=Path("cache"), memory=2**20)
        programs = {frozenset({one}): lambda chunk: None for one in needs}
        source.visit(programs, lambda *chunk: None)

    visited()
    files = sorted(Path("cache").glob("??/*"))
    good = [file.read_bytes() for file in files]

    def read(content: bytes) -> None:
        for file, own in zip(files, good, strict=True):
            file.write_bytes(own)
        files[0].write_bytes(content)
        visited()

    return Target(good, read, hostile.mutate_safetensors)


@target
def entry_points() -> Target:
    """The names of installed packages' items; what they are is trusted, as their code is."""
    from autoprox import registry
    from autoprox.zoo.expression_proxies import PROXIES

    def read(content: bytes) -> None:
        name = content.decode(errors="surrogateescape")
        point = EntryPoint(
            name, "autoprox.zoo.expression_proxies:EXPRESSION_PROXIES", "autoprox.proxies"
        )
        with mock.patch.object(registry, "entry_points", return_value=[point]):
            PROXIES._loaded = False
            command("show", "no-such-proxy")()

    return Target([b"mine", b"my-proxy"], read, hostile.mutate_text(("a", "-", ".", ":")))
