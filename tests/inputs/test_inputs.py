"""Inputs: noise, every layout of images, and what is wrong with bad ones."""

import hashlib
import json
import os
import pickle
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from autoprox.errors import AutoproxError
from autoprox.files.json_documents import JSONFileError
from autoprox.inputs.batch import InputError
from autoprox.inputs.batch_loading import dataset_paths, load_image_batch

SHAPE = (3, 32, 32)


def colour(label: int) -> tuple[int, int, int]:
    """The colour of all images of a label, by which a batch shows its labels."""
    return (label % 256, 255 - label % 256, (7 * label) % 256)


def cifar_row(label: int) -> bytes:
    """The 32 x 32 planes of red, green and blue."""
    return b"".join(bytes([channel]) * 1024 for channel in colour(label))


def save_image(path: Path, label: int, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour(label)).save(path)


def make_npz(root: Path, labels: list[int]) -> Path:
    images = np.array([np.full((9, 7, 3), colour(label)) for label in labels], dtype=np.uint8)
    np.savez(root / "data.npz", images=images, labels=labels)
    return root / "data.npz"


def make_binary(root: Path, labels: list[int]) -> Path:
    records = [bytes([label // 5, label]) + cifar_row(label) for label in labels]
    (root / "train.bin").write_bytes(b"".join(records))
    return root


def python2_pickle(labels: list[int]) -> bytes:
    """CIFAR-100's train file, opcode by opcode as Python 2 wrote it: protocol 2, byte strings."""

    def string(content: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(content)) + content

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    pixels = b"".join(map(cifar_row, labels))
    dtype = b"cnumpy\ndtype\n" + b"(" + string(b"u1") + number(0) + number(1) + b"tR"
    dtype += b"(" + number(3) + string(b"|") + b"NNN" + number(-1) * 2 + number(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n("
    array += number(0) + b"t" + string(b"b") + b"tR"
    array += b"(" + number(1) + b"(" + number(len(labels)) + number(3072) + b"t"
    array += dtype + b"\x89" + string(pixels) + b"tb"
    listed = b"](" + b"".join(map(number, labels)) + b"e"
    return b"\x80\x02}(" + string(b"data") + array + string(b"fine_labels") + listed + b"u."


def make_pickle(root: Path, labels: list[int]) -> Path:
    (root / "train").write_bytes(python2_pickle(labels))
    return root


def make_flowers(root: Path, labels: list[int]) -> Path:
    for i, label in enumerate(labels, start=1):
        save_image(root / "jpg" / f"image_{i:05}.png", label)
    savemat(root / "imagelabels.mat", {"labels": np.array([labels]) + 1})
    return root


def make_chaoyang(root: Path, labels: list[int]) -> Path:
    entries = []
    for i, label in enumerate(labels):
        save_image(root / "train" / f"{i}.png", label)
        entries.append({"name": f"train/{i}.png", "label": label, "label_A": label})
    (root / "train.json").write_text(json.dumps(entries, indent=1))
    return root


def make_folder(root: Path, labels: list[int]) -> Path:
    for i, label in enumerate(labels):
        save_image(root / f"class_{label:03}" / f"{i}.png", label)
    return root


MAKERS = {
    "npz": ("cifar100", make_npz),
    "CIFAR-100 binary": ("cifar100", make_binary),
    "CIFAR-100 python": ("cifar100", make_pickle),
    "Flowers-102": ("flowers", make_flowers),
    "Chaoyang": ("chaoyang", make_chaoyang),
    "image folder": ("chaoyang", make_folder),
}
LABELS = [0, 1, 1, 1, 1, 2, 3, 3, 0, 1, 1, 1]


# ---- noise


def test_digest_is_of_the_content() -> None:
    batch = load_image_batch("cifar100", (3, 2, 2), 2, seed=0)
    again = load_image_batch("imagenet", (3, 2, 2), 2, seed=0, classes=100)
    content = b"(2, 3, 2, 2) 100" + batch.inputs.numpy().tobytes() + batch.labels.numpy().tobytes()
    assert batch.digest == again.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"dataset": "cifar10"}, r"unknown dataset 'cifar10' \(did you mean cifar100\?\)"),
        ({"batch_size": 0}, r"`batch_size >= 1` .* must hold, but got \(batch_size=0, seed=0\)"),
        ({"seed": -1}, r"`seed >= 0` must hold, but got \(batch_size=4, seed=-1\)"),
    ],
)
def test_wrong_request(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_image_batch(
            **{"dataset": "cifar100", "shape": SHAPE, "batch_size": 4, "seed": 0, **asked}
        )


# ---- every layout


@pytest.mark.parametrize("name", MAKERS)
def test_layout(tmp_path: Path, name: str) -> None:
    dataset, make = MAKERS[name]
    path = make(tmp_path, LABELS)
    batch = load_image_batch(dataset, SHAPE, 8, seed=1, images=path)
    assert (batch.inputs.shape, batch.inputs.dtype) == ((8, *SHAPE), torch.float32)
    for pixels, label in zip(batch.inputs, batch.labels.tolist(), strict=True):
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        expected = (torch.tensor(colour(label)) / 255 - mean) / std
        assert torch.allclose(pixels, expected[:, None, None].expand(SHAPE), atol=1e-5)
    # three rounds of four classes, as far as each has images: 2, 8, 1 and 2
    assert Counter(batch.labels.tolist()) == {0: 2, 1: 3, 2: 1, 3: 2}
    assert batch.source.startswith(name)
    assert load_image_batch(dataset, SHAPE, 8, seed=1, images=path).digest == batch.digest
    assert load_image_batch(dataset, SHAPE, 8, seed=2, images=path).digest != batch.digest


@pytest.mark.parametrize("name", MAKERS)
def test_one_class_is_refused(tmp_path: Path, name: str) -> None:
    dataset, make = MAKERS[name]
    with pytest.raises(InputError, match=r"must have images of at least two classes"):
        load_image_batch(dataset, SHAPE, 4, seed=0, images=make(tmp_path, [0] * 6))


@pytest.mark.parametrize("name", MAKERS)
def test_fewer_images_than_asked_for(tmp_path: Path, name: str) -> None:
    dataset, make = MAKERS[name]
    """All there are; and of one more than that, the same."""
    images = make(tmp_path, LABELS)
    every, more = (
        load_image_batch(dataset, SHAPE, size, seed=0, images=images) for size in (12, 13)
    )
    assert sorted(every.labels.tolist()) == sorted(LABELS)
    assert more.digest == every.digest


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_resaved_cifar_pickle(tmp_path: Path, protocol: int) -> None:
    pixels = np.frombuffer(b"".join(map(cifar_row, LABELS)), dtype=np.uint8).reshape(-1, 3072)
    content = {b"data": np.asfortranarray(pixels) if protocol == 4 else pixels}
    # at protocol 2, Python 3 has no byte strings for keys: only CIFAR's own pickles do
    keys = {"fine_labels": LABELS} if protocol == 2 else {b"fine_labels": LABELS}
    (tmp_path / "train").write_bytes(pickle.dumps({**content, **keys}, protocol=protocol))
    if protocol == 2:
        with pytest.raises(InputError, match=r"train must be a CIFAR-100 pickle"):
            load_image_batch("cifar100", SHAPE, 8, seed=1, images=tmp_path)
        return
    found = load_image_batch("cifar100", SHAPE, 8, seed=1, images=tmp_path)
    (tmp_path / "train").write_bytes(python2_pickle(LABELS))
    assert load_image_batch("cifar100", SHAPE, 8, seed=1, images=tmp_path).digest == found.digest


def test_image_is_resized_and_made_rgb(tmp_path: Path) -> None:
    ramp = Image.linear_gradient("L")
    for label in range(2):
        (tmp_path / f"{label}").mkdir()
        ramp.save(tmp_path / f"{label}" / "ramp.png")
    batch = load_image_batch("chaoyang", (3, 16, 24), 2, seed=0, images=tmp_path)
    assert batch.inputs.shape == (2, 3, 16, 24)
    red, green, blue = (
        batch.inputs[0] * torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    ).double()
    assert torch.allclose(red + 0.485, green + 0.456, atol=1e-6)
    assert torch.allclose(red + 0.485, blue + 0.406, atol=1e-6)
    # the mean of 16 rows of a ramp of 256, which bilinear reduction keeps away from the borders
    rows = (red[:, 0] + 0.485)[1:-1] * 255
    assert torch.allclose(rows, 16 * torch.arange(1, 15, dtype=torch.float64) + 7.5, atol=1.0)


def test_images_of_several_datasets(tmp_path: Path) -> None:
    assert dataset_paths(tmp_path, ["cifar100"]) == {"cifar100": tmp_path}
    (tmp_path / "flowers").mkdir()
    (tmp_path / "cifar100.npz").touch()
    paths = {"flowers": tmp_path / "flowers", "cifar100": tmp_path / "cifar100.npz"}
    assert dataset_paths(tmp_path, ["flowers", "cifar100"]) == paths
    assert dataset_paths(tmp_path, ["flowers"]) == {"flowers": tmp_path / "flowers"}
    with pytest.raises(InputError, match=r"folder for each dataset, .*, but has no chaoyang"):
        dataset_paths(tmp_path, ["flowers", "chaoyang"])


# ---- bad files


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def pickles(victim: Path) -> dict[str, bytes]:
    """Files in place of CIFAR's, with what the error says of each."""
    call = f"cposix\nsystem\n(S'touch {victim}'\ntR.".encode()
    whole = python2_pickle(LABELS)
    return {
        r"the name \w+\.system, which is not data": pickle.dumps({b"data": Malicious(victim)}),
        r"the name posix\.system": call,
        r"the name builtins\.eval": b"cbuiltins\neval\n(S'1'\ntR.",
        r"the name numpy\.load": b"cnumpy\nload\n(S'x'\ntR.",
        # what a path with a dot names by attribute, from protocol 4 on
        r"the name numpy\.ndarray\.tofile": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        r"copyreg|extension": b"\x80\x02\x82\x01.",
        r"truncated|Ran out|ran out": whole[:-2000],
        r"EOFError|Ran out": b"",
        r"reshape": whole.replace(struct.pack("<i", 3072) + b"t", struct.pack("<i", 3071) + b"t"),
        r"instead of bytes": whole.replace(b"T\x02\0\0\0u1", b"T\x02\0\0\0f4"),
        r"fine_labels": whole.replace(b"fine_labels", b"gone_labels"),
        r"'list' object|list indices|not subscriptable": pickle.dumps([1, 2]),
    }


def test_pickle_is_never_trusted(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    for message, content in pickles(victim).items():
        (tmp_path / "train").write_bytes(content)
        rule = rf"train must be a CIFAR-100 pickle, but got: .*({message})"
        with pytest.raises(InputError, match=rule) as caught:
            load_image_batch("cifar100", SHAPE, 4, seed=0, images=tmp_path)
        assert "\n" not in str(caught.value)
    assert not victim.exists()
    pickle.loads(pickles(victim)[r"the name posix\.system"])
    assert victim.exists()  # the same file does harm to a reader that trusts it


def test_corrupt_image(tmp_path: Path) -> None:
    make_folder(tmp_path, LABELS)
    path = tmp_path / "class_002" / "5.png"
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:40], whole[:50], whole[:60] + b"\xff" * 8 + whole[68:]):
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=r"class_002/5\.png must be a readable image, but got: "
        ):
            load_image_batch("chaoyang", SHAPE, 12, seed=0, images=tmp_path)


@pytest.mark.parametrize(
    ("size", "message"),
    [(0, "has 0 bytes"), (3074 * 12 - 1, "has 36887 bytes"), (3073 * 10000, "has 30730000 bytes")],
)
def test_binary_of_wrong_length(tmp_path: Path, size: int, message: str) -> None:
    (tmp_path / "train.bin").write_bytes(b"\0" * size)
    rule = rf"train\.bin must be whole CIFAR-100 records of 3074 bytes, but {message}"
    with pytest.raises(InputError, match=rule):
        load_image_batch("cifar100", SHAPE, 4, seed=0, images=tmp_path)


def test_wrong_flowers(tmp_path: Path) -> None:
    make_flowers(tmp_path, LABELS)
    (tmp_path / "jpg" / "image_00003.png").unlink()
    with pytest.raises(
        InputError, match=r"mat must have as many labels as images, but has 12 and 11"
    ):
        load_image_batch("flowers", SHAPE, 4, seed=0, images=tmp_path)
    savemat(tmp_path / "imagelabels.mat", {"labels": np.arange(0, 110, 10)})
    with pytest.raises(InputError, match=r"flowers must be from 0 to 101, but go from -1 to 99"):
        load_image_batch("flowers", SHAPE, 4, seed=0, images=tmp_path)
    for content in (b"", b"text" * 100):
        (tmp_path / "imagelabels.mat").write_bytes(content)
        with pytest.raises(InputError, match=r"imagelabels\.mat must be the labels of Flowers-102"):
            load_image_batch("flowers", SHAPE, 4, seed=0, images=tmp_path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"name": "../../etc/hostname", "label": 1}], r":1: \[0\]\.name must be a file below"),
        ([{"name": "/etc/hostname", "label": 1}], r":1: \[0\]\.name must be a file below"),
        (
            [{"name": "a.png", "label": 4}],
            r"\[0\]\.label must be an integer from 0 to 3, but got 4",
        ),
        ([{"name": "a.png"}], r"\[0\] must have the key label, but got only name"),
        ([3], r"\[0\] must be an object, but got 3"),
        ({}, r"the file must be an array, but got an object"),
    ],
)
def test_wrong_chaoyang(tmp_path: Path, entries: Any, message: str) -> None:
    (tmp_path / "train.json").write_text(json.dumps(entries))
    with pytest.raises(JSONFileError, match=message):
        load_image_batch("chaoyang", SHAPE, 4, seed=0, images=tmp_path)


IMAGES = np.zeros((12, 8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, r"must be an \.npz file with the arrays images and labels.*labels"),
        ({"images": IMAGES, "labels": LABELS[1:]}, r"as many labels as images, .* has 11 and 12"),
        (
            {"images": IMAGES / 255, "labels": LABELS},
            r"must be uint8 .* are float64 \[12, 8, 8, 3\]",
        ),
        ({"images": IMAGES.transpose(0, 3, 1, 2), "labels": LABELS}, r"uint8 \[12, 3, 8, 8\]"),
        ({"images": IMAGES, "labels": np.array(LABELS) / 2}, r"list of integers, but are float64"),
        ({"images": IMAGES, "labels": np.array([LABELS])}, r"are int64 \(1, 12\)"),
        ({"images": IMAGES[:0], "labels": np.array([], int)}, r"must have images, but has none"),
        (
            {"images": IMAGES, "labels": np.array([object()] * 12)},
            r"must be an \.npz .*allow_pickle",
        ),
        ({"images": IMAGES, "labels": np.array(LABELS) + 97}, r"0 to 99, but go from 97 to 100"),
    ],
)
def test_wrong_npz(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load_image_batch("cifar100", SHAPE, 4, seed=0, images=tmp_path / "data.npz")


def test_npz_of_grey_images_and_one_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, images=IMAGES[..., 0] + 255, labels=LABELS)
    batch = load_image_batch("cifar100", SHAPE, 4, seed=0, images=path)
    assert float(batch.inputs[:, 0].min()) == pytest.approx((1 - 0.485) / 0.229)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:100], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"data\.npz must be an \.npz file with the arrays"):
            load_image_batch("cifar100", SHAPE, 4, seed=0, images=path)


def test_no_layout(tmp_path: Path) -> None:
    def rejected(path: Path, message: str, dataset: str = "cifar100") -> None:
        with pytest.raises(AutoproxError, match=message):
            load_image_batch(dataset, SHAPE, 4, seed=0, images=path)

    rejected(tmp_path / "none", r"none must be a file or folder of images, but does not exist")
    rejected(
        tmp_path, rf"{re.escape(str(tmp_path))} must have one of the layouts npz .*; Flowers-102"
    )
    (tmp_path / "notes.txt").touch()
    rejected(tmp_path / "notes.txt", r"notes\.txt must have one of the layouts")
    (tmp_path / "cats").mkdir()
    rejected(tmp_path, r"cats must have the images of one class, but has none")
    rejected(
        make_flowers(tmp_path, LABELS), r"must hold images of chaoyang, but is Flower", "chaoyang"
    )
