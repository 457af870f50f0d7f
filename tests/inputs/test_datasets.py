"""Datasets to train on: the layouts that have parts, what is held out, and bad files."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from autoprox.errors import AutoproxError
from autoprox.inputs.training_datasets import dataset_name, load_images, load_text
from autoprox.searchspaces.gpt2 import GPT2_NANO, GPT2NanoSpace

SHAPE = (3, 8, 8)
TRAIN = [0, 1, 2, 0, 1, 2, 1]
TEST = [2, 0, 1]


def pictures(labels: list[int], side: int, first: int) -> NDArray[np.uint8]:
    """Images [n, side, side, 3], each of one grey that tells its place from all others."""
    greys = first + np.arange(len(labels), dtype=np.uint8)
    return np.broadcast_to(greys[:, None, None, None], (len(labels), side, side, 3)).copy()


def save_npz(path: Path, labels: list[int], first: int, side: int = 8) -> None:
    np.savez(path, images=pictures(labels, side, first), labels=np.array(labels, dtype=np.int64))


def save_idx(path: Path, labels: list[int], first: int, *, packed: bool = False) -> None:
    images = pictures(labels, 8, first)[..., 0]
    parts = {
        path: struct.pack(">4I", 0x803, len(labels), 8, 8) + images.tobytes(),
        Path(str(path).replace("images-idx3", "labels-idx1")): struct.pack(
            ">2I", 0x801, len(labels)
        )
        + bytes(labels),
    }
    for file, content in parts.items():
        file.write_bytes(gzip.compress(content) if packed else content)


def save_cifar(path: Path, labels: list[int], first: int, head: int) -> None:
    """CIFAR's records: one label of CIFAR-10, or the two of CIFAR-100, and the planes."""
    images = pictures(labels, 32, first).transpose(0, 3, 1, 2).reshape(len(labels), -1)
    heads = [bytes([0] * (head - 1) + [label]) for label in labels]
    content = [a + b.tobytes() for a, b in zip(heads, images, strict=True)]
    path.write_bytes(b"".join(content))


def save_folder(path: Path, labels: list[int], first: int) -> None:
    for i, (label, image) in enumerate(zip(labels, pictures(labels, 8, first), strict=True)):
        file = path / f"class{label}" / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)


def npz(root: Path) -> Path:
    save_npz(root / "toy.npz", TRAIN, 10)
    save_npz(root / "toy.test.npz", TEST, 100)
    return root / "toy.npz"


def idx(root: Path, ending: str = "") -> Path:
    packed = bool(ending)
    save_idx(root / f"train-images-idx3-ubyte{ending}", TRAIN, 10, packed=packed)
    save_idx(root / f"t10k-images-idx3-ubyte{ending}", TEST, 100, packed=packed)
    return root


def cifar10(root: Path) -> Path:
    save_cifar(root / "data_batch_1.bin", TRAIN[:4], 10, 1)
    save_cifar(root / "data_batch_2.bin", TRAIN[4:], 14, 1)
    save_cifar(root / "test_batch.bin", TEST, 100, 1)
    return root


def cifar100(root: Path) -> Path:
    save_cifar(root / "train.bin", TRAIN, 10, 2)
    save_cifar(root / "test.bin", TEST, 100, 2)
    return root


MAKERS: dict[str, Callable[[Path], Path]] = {
    "npz": npz,
    "idx": idx,
    "idx.gz": lambda root: idx(root, ".gz"),
    "cifar10": cifar10,
    "cifar100": cifar100,
}


@pytest.mark.parametrize("name", MAKERS)
def test_layouts_with_two_parts(tmp_path: Path, name: str) -> None:
    data = load_images(MAKERS[name](tmp_path), SHAPE)
    assert (data.classes, data.labels.tolist()) == (3, TRAIN)
    assert data.held_out_labels.tolist() == TEST
    for images, first in ((data.images, 10), (data.held_out_images, 100)):
        expected = first + torch.arange(len(images), dtype=torch.uint8)
        assert torch.equal(images, expected[:, None, None, None].expand(-1, 8, 8, 3))


@pytest.mark.parametrize("second", ["test", "val"])
def test_folders_of_two_parts_are_numbered_alike(tmp_path: Path, second: str) -> None:
    save_folder(tmp_path / "train", [0, 1, 2], 10)
    save_folder(tmp_path / second, [2, 1, 0], 100)
    data = load_images(tmp_path, SHAPE)
    assert (data.labels.tolist(), data.images[:, 0, 0, 0].tolist()) == ([0, 1, 2], [10, 11, 12])
    assert data.held_out_labels.tolist() == [0, 1, 2]
    assert data.held_out_images[:, 0, 0, 0].tolist() == [102, 101, 100]
    assert dataset_name(tmp_path) == tmp_path.name


def test_folders_with_other_classes(tmp_path: Path) -> None:
    save_folder(tmp_path / "train", [0, 1, 2], 10)
    save_folder(tmp_path / "test", [0, 1], 10)
    with pytest.raises(AutoproxError, match=r"must have the same classes, but differ in class2$"):
        load_images(tmp_path, SHAPE)


def test_without_a_second_part_a_fifth_of_each_class_is_held_out(tmp_path: Path) -> None:
    labels = [0] * 30 + [1] * 10 + [2] * 2
    save_npz(tmp_path / "toy.npz", labels, 0)
    data = load_images(tmp_path / "toy.npz", SHAPE)
    assert torch.bincount(data.held_out_labels).tolist() == [6, 2, 1]
    parts = [data.images[:, 0, 0, 0].tolist(), data.held_out_images[:, 0, 0, 0].tolist()]
    assert sorted(parts[0] + parts[1]) == list(range(42))
    assert [labels[i] for i in parts[0]] == data.labels.tolist()
    assert data.digest == load_images(tmp_path / "toy.npz", SHAPE).digest


@pytest.mark.parametrize("parts", [1, 2])
def test_what_does_not_fit_in_memory_is_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    save_npz(tmp_path / "some.npz", 2 * TRAIN, 0)
    if parts == 2:
        save_npz(tmp_path / "some.test.npz", TEST, 50)
    inside = load_images(tmp_path / "some.npz", SHAPE)
    made: list[tuple[int, ...]] = []
    room = np.memmap
    monkeypatch.setattr(
        "numpy.memmap",
        lambda *file, shape, **how: made.append(shape) or room(*file, shape=shape, **how),
    )
    monkeypatch.setattr("autoprox.inputs.training_datasets.IN_MEMORY", 4 * 8 * 8 * 3)
    outside = load_images(tmp_path / "some.npz", SHAPE)
    assert (14, 8, 8, 3) in made
    assert (3, 8, 8, 3) not in made
    assert outside.digest == inside.digest
    assert torch.equal(outside.images, inside.images)
    assert torch.equal(outside.held_out_images, inside.held_out_images)


def test_digest_changes_with_one_pixel(tmp_path: Path) -> None:
    images = pictures(TRAIN, 8, 0)
    np.savez(tmp_path / "toy.npz", images=images, labels=TRAIN)
    before = load_images(tmp_path / "toy.npz", SHAPE).digest
    images[0, 0, 0, 0] += 1
    np.savez(tmp_path / "toy.npz", images=images, labels=TRAIN)
    assert load_images(tmp_path / "toy.npz", SHAPE).digest != before


def test_other_sizes_are_resized(tmp_path: Path) -> None:
    save_npz(tmp_path / "toy.npz", TRAIN, 10, side=13)
    data = load_images(tmp_path / "toy.npz", SHAPE)
    assert data.images.shape[1:] == (8, 8, 3)
    assert data.images.amin((1, 2, 3)).equal(data.images.amax((1, 2, 3)))


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my photos!").mkdir()
    monkeypatch.chdir(tmp_path / "my photos!")
    assert dataset_name(Path()) == "my-photos"


def bad_sizes(root: Path) -> Path:
    save_folder(root, [0, 0, 1], 10)
    Image.new("RGB", (5, 7)).save(root / "class1" / "odd.png")
    return root


def bad_image(root: Path) -> Path:
    save_folder(root, [0, 0, 1], 10)
    (root / "class1" / "odd.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return root


def bad_idx(content: bytes) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        idx(root)
        (root / "train-images-idx3-ubyte").write_bytes(content)
        return root

    return make


def bad_npz(labels: list[int], test_labels: list[int] = TEST) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        save_npz(root / "toy.npz", labels, 0)
        save_npz(root / "toy.test.npz", test_labels, 0)
        return root / "toy.npz"

    return make


def fewer_labels(root: Path) -> Path:
    np.savez(root / "toy.npz", images=pictures(TRAIN, 8, 0), labels=TRAIN[1:])
    return root / "toy.npz"


def single(root: Path) -> Path:
    save_npz(root / "toy.npz", [0, 0, 1], 0)
    return root / "toy.npz"


def bad_cifar10(root: Path) -> Path:
    (cifar10(root) / "data_batch_2.bin").write_bytes(b"0" * 3072)
    return root


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root, r"must have one of the layouts npz .*image folder, but has none"),
        (lambda root: root / "none", r"none must be a file or folder of images, but does not"),
        (bad_sizes, r"all images must have the same size, but image 3 has \(5, 7\) and image 0"),
        (bad_image, r"odd\.png must be a readable image, but got: "),
        (bad_idx(b""), r"ubyte must be an IDX file of bytes with 3 axes, .* starts with nothing"),
        (bad_idx(b"\0\0\x08\x01"), r"must be an IDX file .* starts with 00 00 08 01"),
        (bad_idx(b"\0\0\x08\x03" + bytes(12) + b"1"), r"must be an IDX file .*, but got: "),
        (bad_cifar10, r"data_batch_2\.bin must be whole CIFAR-10 records of 3073 bytes, .* 3072"),
        (fewer_labels, r"must have as many labels as images, but has 6 and 7$"),
        (bad_npz([1, 1, 1]), r"must have images of at least two classes, but all are of 1$"),
        (bad_npz([0, -1]), r"labels must be at least 0 and below 2, .* but go from -1 to 0$"),
        (bad_npz([0, 2**40]), r"labels must be at least 0 and below 2, .* to 1099511627776$"),
        (bad_npz([0, 1]), r"held-out images must be below 2, as .* train on are, but go up to 2$"),
        (bad_npz([]), r"toy\.npz must have images, but has none$"),
        (single, r"must have at least 2 images of class 1, but has 1$"),
    ],
)
def test_bad_input(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(AutoproxError, match=message) as caught:
        load_images(make(tmp_path), SHAPE)
    assert "\n" not in str(caught.value)


def test_the_last_fifth_of_a_text_is_held_out(tmp_path: Path) -> None:
    file = tmp_path / "my poem.txt"
    file.write_bytes("Füße, ".encode() * 100)
    data = load_text(file, GPT2_NANO)
    assert (data.name, data.classes) == ("my-poem", 256)
    assert data.sizes == {"bytes": 640, "held_out": 160}
    assert bytes(torch.cat([data.tokens, data.held_out]).tolist()) == file.read_bytes()
    file.write_bytes("Füße; ".encode() * 100)
    assert load_text(file, GPT2_NANO).digest != data.digest


class Narrow(GPT2NanoSpace):
    vocabulary = 255


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"poem\.txt must be a text file, but does not exist$"),
        (b"\x89PNG\r\n", r"poem\.txt must be a text in UTF-8 without zeros, but byte 0 is 137$"),
        ("é".encode("latin-1"), r"must be a text in UTF-8 without zeros, but byte 0 is 233$"),
        (b"abc\0", r"must be a text in UTF-8 without zeros, but byte 3 is 0$"),
    ],
)
def test_bad_text(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "poem.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(AutoproxError, match=message):
        load_text(file, GPT2_NANO)


def test_a_text_is_a_file_and_needs_a_token_for_every_byte(tmp_path: Path) -> None:
    with pytest.raises(AutoproxError, match=r"must be a text file, but is none$"):
        load_text(tmp_path, GPT2_NANO)
    (tmp_path / "a.txt").write_text("a" * 500)
    narrow = Narrow("narrow", "", GPT2_NANO.fields)
    with pytest.raises(AutoproxError, match=r"at least 256 tokens, but narrow has 255$"):
        load_text(tmp_path / "a.txt", narrow)
