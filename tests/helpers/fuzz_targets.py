"""What is fuzzed: for each kind of file a small good one, how it is mutated, and what reads it.

`TARGETS` is the registry. A target is made in an empty folder, the current one, and reads contents
there any number of times; what it raises is judged by `helpers.fuzzing`.
"""

import gzip
import io
import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from helpers import hostile
from helpers.images import save_images
from helpers.lts import INSIDE, archive, link, lts_folder
from helpers.records import proxy_record
from helpers.tables import table


class Target(NamedTuple):
    """Good contents, what reads one, and how they are mutated."""

    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    mutate: hostile.Mutation = hostile.mutate_json


TARGETS: dict[str, Callable[[], Target]] = {}
SMALL: dict[str, Any] = {"batch_size": 2}


def target(function: Callable[[], Target]) -> Callable[[], Target]:
    TARGETS[function.__name__.removesuffix("_")] = function
    return function


class StopError(Exception):
    """Stops a run before its work, as a kill would."""


def stop_at_work(task: str, done: int, total: int, note: str) -> None:
    if task == "run":
        raise StopError


def limit_children(seconds: int) -> None:
    """The product's own readers in other processes get so little time."""
    from autoprox.inputs import isolated_reading

    isolated_reading.READER_SECONDS = seconds


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def file_reader(name: str, *readers: Callable[[Path], object]) -> Callable[[bytes], None]:
    """Puts a content into a file, and reads that by each of the readers."""

    def read(content: bytes) -> None:
        path = Path(name).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        several(*(lambda reader=reader: reader(path) for reader in readers))

    return read


def several(*calls: Callable[[], object]) -> None:
    """All of the calls, also where one is refused; what is wrong with one is raised."""
    from autoprox.errors import AutoproxError

    refused: Exception | None = None
    for call in calls:
        try:
            call()
        except (AutoproxError, OSError) as error:
            refused = error
    if refused is not None:
        raise refused


def command(*arguments: object) -> Callable[[], None]:
    """A command, whose errors are raised."""

    def call() -> None:
        from autoprox.cli.app import app

        app(list(map(str, arguments)), prog_name="autoprox", standalone_mode=False)

    return call


def images(dataset: str, classes: int = 10) -> Callable[[Path], object]:
    """Reads a dataset, as a batch and whole."""
    from autoprox.inputs.batch_loading import load_image_batch
    from autoprox.inputs.training_datasets import load_images

    def read(path: Path) -> None:
        batch = lambda: load_image_batch(dataset, (3, 8, 8), 2, 0, path, classes)  # noqa: E731
        several(batch, lambda: load_images(path, (3, 8, 8)))

    return read


@target
def expression() -> Target:
    from autoprox.language import canonical, parse_expression
    from autoprox.language.leaf_kinds import leaf_words
    from autoprox.primitives import OPERATIONS
    from autoprox.report.terminal.proxy_report import proxy_report
    from autoprox.zoo.proxy_loading import resolve_proxy

    def read(content: bytes) -> None:
        text = content.decode(errors="surrogateescape")
        canonical(parse_expression(text))
        proxy_report(resolve_proxy(text))

    words = (*OPERATIONS, *leaf_words(), *"(),. ", "power(", "))", "add(width,")
    words += ("pow(", "-1.5", "0.37", "2.0", "1e3", "-", "9" * 400)
    seeds = [b"sum(sum(abs(mul(all.weight, all.grad))))", b"rank(l1_norm(std(ntk.mlp.grad)))"]
    seeds.append(b"add(pow(sum(width), -0.37), div(2, sum(sum(all.grad))))")
    seeds.append(b"distance(entropy(all.weight), nuclear_norm(all.weight))")
    return Target(seeds, read, hostile.mutate_text(words))


@target
def proxy() -> Target:
    from autoprox.runs.proxy_file import read_proxy, write_proxy

    write_proxy(Path("seed.json"), proxy_record())
    read = file_reader("proxy.json", read_proxy, lambda path: command("show", path)())
    return Target([Path("seed.json").read_bytes()], read)


@target
def benchmark() -> Target:
    from autoprox.benchmarks import load_benchmark

    def shown(path: Path) -> None:
        load_benchmark(path)
        command("bench", "info", path)()

    seeds = [dumped(table()), dumped({**table(), "space": "pit"})]
    return Target(seeds, file_reader("mine.json", shown))


@target
def results() -> Target:
    """The table grows in memory alone."""
    from autoprox.benchmarks.growing_table import GrowingTable

    rows = table()["architectures"]
    own = [{"space": "autoformer-nano", "choices": r["arch"], "scores": r["scores"]} for r in rows]
    Path("mine.json").write_text(json.dumps({**table(), "architectures": rows[:6]}))
    suggested = {**table(), "architectures": [], "suggested": [r["arch"] for r in rows]}

    def grown(path: Path) -> None:
        GrowingTable.read(Path("mine.json")).add(path)

    seeds = [dumped(own[:8]), dumped(own[6:]), dumped(suggested)]
    return Target(seeds, file_reader("results.json", grown, GrowingTable.read))


@target
def pth() -> Target:
    """Read only as the published file itself: whatever else is refused before it is parsed."""
    import torch

    from autoprox.benchmarks import BENCHMARKS, load_benchmark
    from autoprox.benchmarks.vit_bench import VIT_BENCH_101

    content = io.BytesIO()
    torch.save([{"arch": {}, "c100_kd_acc": 1.0}], content)
    name = VIT_BENCH_101.files[0].name
    assert VIT_BENCH_101.name in BENCHMARKS

    def resolve_proxy(path: Path) -> None:
        load_benchmark("vit-bench-101", space="autoformer", data_dir=Path().absolute())

    def status(path: Path) -> None:
        command("bench", "list", "--data-dir", ".")()

    seeds = [content.getvalue(), pickle.dumps(Evil()), b""]
    reader = file_reader(f"vit-bench-101/{name}", resolve_proxy, status)
    return Target(seeds, reader, hostile.mutate_zip)


@target
def ood_vit_nas() -> Target:
    """The reader alone: `load_benchmark` refuses any other file than the published one."""
    from autoprox.benchmarks import BENCHMARKS
    from autoprox.benchmarks.benchmark import BenchmarkSelection

    source = BENCHMARKS["ood-vit-nas"]
    selection = BenchmarkSelection("autoformer-supernet-s", "supernet", ("imagenet",))
    [file] = [file for file in source.files if file.space == selection.space]
    excerpt = Path(__file__).parents[1] / "data" / "benchmarks" / "ood_vit_nas_small.json"
    entries = json.loads(excerpt.read_text())
    few = {number: entries[number] for number in ("0", "1", "2")}
    return Target([dumped(few)], lambda content: source.read(selection, [(file, content)]))


LTS_WORDS = (
    *("config_0_j0:", "  valid_ppl: ", "- ", ".nan", "&a ", "*a", "!!python/object:x ", "\n"),
    *("9" * 50, "1e999", "{", "[", "n_layer: 2", "d_inner:", "---", "  ", "'", "null", "? "),
)


@target
def lts() -> Target:
    """The reader alone, of a wrong summary and of a wrong network."""
    from autoprox.benchmarks import BENCHMARKS
    from autoprox.benchmarks.benchmark import BenchmarkSelection

    source, good = BENCHMARKS["lts"], lts_folder()
    selection = BenchmarkSelection("gpt2-lts", "valid_ppl", ("wikitext-103",))
    paths = ("ppl_summary.yaml", "config_0/j0/model_config.yaml")

    def read(content: bytes) -> None:
        several(
            *(
                lambda path=path: source.read(
                    selection, [(source.files[0], {**good, path: content})]
                )
                for path in paths
            )
        )

    return Target([good[path] for path in paths], read, hostile.mutate_text(LTS_WORDS))


@target
def lts_archive() -> Target:
    """A .tar.gz, which nobody extracts; half of them are whole gzip files of a wrong archive."""
    from autoprox.files.tar_archives import read_folders

    packed = archive(dict(list(lts_folder().items())[:2]), link("archai-0/a", "b"))

    def read(content: bytes) -> None:
        zipped = content if content.startswith(b"\x1f\x8b") else gzip.compress(content)
        read_file = file_reader("a.tar.gz", lambda path: read_folders(path, [INSIDE], "a.tar.gz"))
        read_file(zipped)

    return Target([packed, gzip.decompress(packed)], read, hostile.mutate_bytes)


class Evil:
    """Its pickle calls a function when it is loaded by `pickle`."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("called"),)


@target
def npz() -> Target:
    seeds = [save_images(Path(f"{side}.npz"), 12, 3, side).read_bytes() for side in (4, 8)]
    return Target(seeds, file_reader("mine.npz", images("mine")), hostile.mutate_zip)


def idx(values: Any) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def idx_reader(name: str, other: str, content_of_other: bytes) -> Callable[[bytes], None]:
    def read(content: bytes) -> None:
        shutil.rmtree("idx", ignore_errors=True)
        end = ".gz" if content.startswith(b"\x1f\x8b") else ""
        there = gzip.compress(content_of_other) if end else content_of_other
        Path("idx").mkdir()
        Path("idx", other + end).write_bytes(there)
        file_reader(f"idx/{name}{end}", lambda path: images("mine")(path.parent))(content)

    return read


PIXELS = np.arange(12 * 16).reshape(12, 4, 4)
IDX_IMAGES, IDX_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@target
def idx_images() -> Target:
    good = idx(PIXELS)
    read = idx_reader(IDX_IMAGES, IDX_LABELS, idx(np.arange(12) % 3))
    return Target([good, gzip.compress(good)], read, hostile.mutate_gzip)


@target
def idx_labels() -> Target:
    good = idx(np.arange(12) % 3)
    read = idx_reader(IDX_LABELS, IDX_IMAGES, idx(PIXELS))
    return Target([good, gzip.compress(good)], read, hostile.mutate_gzip)


@target
def png() -> Target:
    """Any content of a file that is called an image."""
    for name in ("a/0.png", "a/1.png", "b/1.png", "b/2.png"):
        Path("folder", name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[0].astype(np.uint8)).save(Path("folder", name))
    seeds = []
    for mode, form in (("RGB", "PNG"), ("P", "PNG"), ("1", "PNG"), ("RGB", "JPEG"), ("L", "TIFF")):
        content = io.BytesIO()
        Image.fromarray(PIXELS[0].astype(np.uint8)).convert(mode).save(content, form)
        seeds.append(content.getvalue())
    seeds.append(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    read = file_reader("folder/a/0.png", lambda path: images("mine")(path.parent.parent))
    return Target(seeds, read, hostile.mutate_png)


@target
def cifar_binary() -> Target:
    pixels = bytes(range(256)) * 12
    seeds = [b"".join(bytes([i % 3]) * labels + pixels for i in range(6)) for labels in (1, 2)]

    def read(content: bytes) -> None:
        ten, hundred = images("mine"), images("cifar100", 100)
        several(
            lambda: file_reader("ten/data_batch_1.bin", lambda path: ten(path.parent))(content),
            lambda: file_reader("hundred/train.bin", lambda path: hundred(path.parent))(content),
        )

    return Target(seeds, read, hostile.mutate_bytes)


@target
def cifar_pickle() -> Target:
    content = {
        b"data": np.arange(6 * 3072).reshape(6, 3072).astype(np.uint8),
        b"fine_labels": [0, 1, 2] * 2,
    }
    seeds = [pickle.dumps(content, protocol) for protocol in (0, 2, 4, 5)]
    seeds += [pickle.dumps({**content, b"fine_labels": Evil()}, p) for p in (0, 2, 4)]
    reader = file_reader("cifar/train", lambda path: images("cifar100", 100)(path.parent))
    return Target(seeds, reader, hostile.mutate_bytes)


@target
def mat() -> Target:
    from scipy.io import savemat

    Path("flowers/jpg").mkdir(parents=True)
    for number in range(6):
        Image.fromarray(PIXELS[0].astype(np.uint8)).save(f"flowers/jpg/{number}.jpg")
    seeds = []
    for packed in (False, True):
        content = io.BytesIO()
        savemat(
            content, {"labels": np.array([[1, 2, 3, 1, 2, 3]], np.uint8)}, do_compression=packed
        )
        seeds.append(content.getvalue())
    reader = file_reader(
        "flowers/imagelabels.mat", lambda path: images("flowers", 102)(path.parent)
    )
    return Target(seeds, reader, hostile.mutate_bytes)


@target
def chaoyang() -> Target:
    for number in range(4):
        Path("chaoyang").mkdir(exist_ok=True)
        Image.fromarray(PIXELS[0].astype(np.uint8)).save(f"chaoyang/{number}.png")
    entries = [{"name": f"{n}.png", "label": n % 2, "label_A": 1} for n in range(4)]
    read = file_reader("chaoyang/train.json", lambda path: images("chaoyang", 4)(path.parent))
    return Target([dumped(entries)], read)


@target
def text() -> Target:
    from autoprox.inputs.batch_loading import load_token_batch
    from autoprox.inputs.training_datasets import load_text
    from autoprox.searchspaces import get_space
    from autoprox.searchspaces.language_model_bases import TokenSpace

    causal, masked = get_space("gpt2-nano"), get_space("bert")
    assert isinstance(causal, TokenSpace)
    assert isinstance(masked, TokenSpace)

    def read(path: Path) -> None:
        several(
            lambda: load_text(path, causal),
            lambda: load_token_batch(causal, 2, 8, 0, path),
            lambda: load_token_batch(masked, 2, 8, 0, path),
        )

    seeds = [b"It was the best of times, it was the worst of times. " * 4]
    return Target(seeds, file_reader("tale.txt", read), hostile.mutate_bytes)


@target
def architecture() -> Target:
    from random import Random

    from autoprox.oneshot.supernet.subnet_samplers import read_subnet_entries
    from autoprox.searchspaces import SPACES, architecture_from_json

    seeds = [dumped(space.sample(Random(0)).to_json()) for space in SPACES.values()]

    def read(path: Path) -> None:

        for name in ("autoformer-nano", "pit", "swin-nano", "flexibert", "bignas"):
            several(lambda name=name: read_subnet_entries(path, SPACES[name]))

    def whole(path: Path) -> None:
        from autoprox.files.json_documents import read_object

        architecture_from_json(read_object(path))

    return Target(seeds, file_reader("arch.json", read, whole))


@target
def subnets() -> Target:
    from random import Random

    from autoprox.oneshot.supernet.subnet_samplers import read_subnets
    from autoprox.searchspaces import get_space

    space, rng = get_space("autoformer-nano"), Random(0)
    rows = [{"arch": space.sample(rng).to_json()["choices"], "score": 1.0} for _ in range(4)]
    return Target([dumped(rows)], file_reader("top.json", lambda path: read_subnets(path, space)))


@target
def supernet() -> Target:
    import torch

    from autoprox.oneshot.supernet.shared_weights import (
        Supernet,
        SupernetCheckpointHeader,
        read_supernet,
        write_supernet_checkpoint,
    )
    from autoprox.searchspaces import get_space

    space = get_space("autoformer-nano")
    good = Supernet(space, 3)
    state = {f"weight.{name}": tensor.detach() for name, tensor in good.parameters.items()}
    write_supernet_checkpoint(
        Path("good.safetensors"), state, SupernetCheckpointHeader(space.name, 3, 1, 2)
    )

    def read(path: Path) -> None:
        torch.set_num_threads(1)
        read_supernet(path, space)

    seeds = [Path("good.safetensors").read_bytes()]
    return Target(seeds, file_reader("supernet.safetensors", read), hostile.mutate_safetensors)
