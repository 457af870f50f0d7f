"""Files that are made to crash, to hang or to fill the memory are told in one line."""

import gzip
import io
import json
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from autoprox.benchmarks import load_benchmark
from autoprox.errors import AutoproxError
from autoprox.files.json_documents import JSONFileError, read_json
from autoprox.inputs.batch import InputError
from autoprox.inputs.batch_loading import load_image_batch, load_token_batch
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_model_bases import TokenSpace

# Ends scipy.io.loadmat by a segmentation fault.
MAT = 124 * b" " + bytes.fromhex(
    "0001494d0e00000038000000060000000800000009000000000000000500000008000000010000000400000001000000"
    "060000006c6162656c73000002c80400010a0304"
)


def nested(depth: int) -> bytes:
    """A dictionary whose key takes 2**depth steps to hash."""
    pairs = b"".join(b"q%ch%c\x86" % (level, level) for level in range(depth))
    return b"\x80\x02})" + pairs + b"K\x01s."


def crashing(folder: Path) -> Path:
    (folder / "imagelabels.mat").write_bytes(MAT)
    return folder


def hanging(folder: Path) -> Path:
    (folder / "train").write_bytes(nested(60))
    return folder


def greedy(folder: Path) -> Path:
    """Asks for a memo of 2**29 entries."""
    (folder / "train").write_bytes(b"\x80\x02]r\xff\xff\xff\x1f.")
    return folder


def unpacking(folder: Path) -> Path:
    """A gigabyte in a megabyte."""
    header = bytes([0, 0, 8, 3]) + np.array([2**20, 32, 32], dtype=">u4").tobytes()
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(64):
            file.write(bytes(2**24))
    return folder


def inflated(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images.npy", "labels.npy"):
            with archive.open(name, "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "|u1", "fortran_order": False, "shape": (2**18, 32, 32)}
                )
                for _ in range(16):
                    file.write(bytes(2**24))
    return folder / "bomb.npz"


def boasting(folder: Path) -> Path:
    """Says to be of 2**40 images, and has none."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "|u1", "fortran_order": False, "shape": (2**40, 32, 32)}
    )
    with zipfile.ZipFile(folder / "boast.npz", "w") as archive:
        archive.writestr("images.npy", content.getvalue())
        archive.writestr("labels.npy", content.getvalue())
    return folder / "boast.npz"


def postscript(folder: Path) -> Path:
    """Pillow calls ghostscript for it, whatever the file is called."""
    return picture(folder, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")


def expanse(folder: Path) -> Path:
    """Of 144 million white pixels, in 20 kB."""
    content = io.BytesIO()
    Image.new("1", (12_000, 12_000), 1).save(content, "PNG", optimize=True)
    return picture(folder, content.getvalue())


def piped(folder: Path) -> Path:
    picture(folder, b"").joinpath("a", "0.png").unlink()
    os.mkfifo(folder / "a" / "0.png")
    return folder


def picture(folder: Path, content: bytes) -> Path:
    """A folder of two classes, all of whose images are such a file."""
    for name in ("a/0.png", "b/0.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def half_a_name(folder: Path) -> Path:
    entries = [{"name": "a\0b.png", "label": 0}, {"name": "b.png", "label": 1}]
    (folder / "train.json").write_text(json.dumps(entries))
    return folder


def sideless(folder: Path) -> Path:
    """Images without a pixel, of more than Pillow can count."""
    images = np.zeros((6, 2**33, 0), np.uint8)
    np.savez(folder / "sideless.npz", images=images, labels=np.arange(6) % 2)
    return folder / "sideless.npz"


def empty_bins(folder: Path) -> Path:
    (folder / "my-images-idx3").mkdir()
    return folder / "my-images-idx3"


@pytest.mark.filterwarnings("ignore:Image size")  # Pillow's own, from 90 million pixels on
@pytest.mark.parametrize(
    ("make", "dataset"),
    [
        (crashing, "flowers"),
        (hanging, "cifar100"),
        (greedy, "cifar100"),
        (unpacking, "mine"),
        (inflated, "mine"),
        (boasting, "mine"),
        (postscript, "mine"),
        (expanse, "mine"),
        (piped, "mine"),
        (half_a_name, "chaoyang"),
        (empty_bins, "mine"),
        (sideless, "mine"),
    ],
)
def test_images(
    make: Callable[[Path], Path], dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoprox.inputs.isolated_reading.READER_SECONDS", 3)
    path = make(tmp_path)
    began = time.monotonic()
    with pytest.raises(AutoproxError, match=f"^{tmp_path}.* must be [^\n]*$"):
        load_image_batch(dataset, (3, 8, 8), 2, 0, path, 10)
    assert time.monotonic() - began < 20


def test_a_table_of_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"a": [1.5] * 2**21}))
    with pytest.raises(JSONFileError, match=r"must have at most 8388608 bytes, but has \d+$"):
        read_json(path)


def test_a_pipe_instead_of_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "vit-bench-101").mkdir()
    os.mkfifo(tmp_path / "vit-bench-101" / "gt_pit.pth")
    with pytest.raises(AutoproxError, match=r"gt_pit.pth must be a readable file, but got: no f"):
        load_benchmark("vit-bench-101", space="pit", data_dir=tmp_path)


def test_a_text_that_is_a_pipe_or_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = get_space("gpt2-nano")
    assert isinstance(space, TokenSpace)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "long.txt").write_text("long")
    monkeypatch.setattr("autoprox.inputs.batch_loading.MAX_TEXT_BYTES", 3)
    for name in ("pipe.txt", "long.txt"):
        with pytest.raises(InputError, match=r"must be a readable text file.* at most 3 bytes$"):
            load_token_batch(space, 1, 2, 0, tmp_path / name)
