"""The tables that come with the package: files of its data, in the form of `benchmarks.table`."""

import hashlib
import json
from collections.abc import Sequence

from autoprox.benchmarks.base import DataFile, Row, Selection, Source
from autoprox.benchmarks.files import PACKAGE_DATA
from autoprox.benchmarks.table import LABEL, read_rows
from autoprox.files.located_json import parse_json


def read(selection: Selection, files: Sequence[tuple[DataFile, bytes]]) -> list[Row]:
    """The rows of the one file."""
    [(file, content)] = files
    return read_rows(parse_json(content, file.name))


def embedded(name: str, description: str, licence: str, origin: str) -> Source:
    """A table of the package, which was built by training, as a built-in benchmark."""
    path = PACKAGE_DATA / f"{name}.json"
    content = path.read_bytes()
    table = json.loads(content)
    file = DataFile(
        path.name,
        hashlib.sha256(content).hexdigest(),
        size=len(content),
        space=table["space"],
        architectures=len(table["architectures"]),
    )
    return Source(
        name=name,
        description=description,
        labels={file.space: {LABEL: tuple(table["datasets"])}},
        classes={dataset: entry["classes"] for dataset, entry in table["datasets"].items()},
        licence=licence,
        origin=origin,
        url=None,
        files=(file,),
        read=read,
        noise_ceiling=table["training"]["noise_ceiling"],
    )


NANO_VIT_BENCH = embedded(
    "nano-vit-bench",
    description="small vision transformers trained on CIFAR-10, Fashion-MNIST and digits",
    licence="MIT",
    origin="autoprox (runs/nano-vit-bench)",
)
