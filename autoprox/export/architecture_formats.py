"""The formats in which an architecture is exported, each as files by their names."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from autoprox.export.proxy_formats import ExportError
from autoprox.export.timm_network import timm_source
from autoprox.export.torch_network import torch_network_source
from autoprox.export.transformers_network import transformers_files
from autoprox.files.atomic_writes import to_json
from autoprox.registry import Registry
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.language_model_bases import TokenSpace

Files = dict[str, str | bytes]


@dataclass(frozen=True)
class ArchitectureFormat:
    """A format: it writes the files of an architecture's network for a number of classes."""

    write: Callable[[SearchSpace, Architecture, int], Files]
    trains: bool = True  # whether a script that trains it is added to its `network.py`


ARCHITECTURE_FORMATS: Registry[ArchitectureFormat] = Registry(
    "targets", "format of an architecture", ExportError
)
ARCHITECTURE_FORMATS.register("json", ArchitectureFormat(lambda *_: {}, trains=False))
ARCHITECTURE_FORMATS.register(
    "torch", ArchitectureFormat(lambda *what: {"network.py": torch_network_source(*what)})
)
ARCHITECTURE_FORMATS.register(
    "timm", ArchitectureFormat(lambda *what: {"network.py": timm_source(*what)})
)
ARCHITECTURE_FORMATS.register("transformers", ArchitectureFormat(transformers_files))


def architecture_files(
    target: str, space: SearchSpace, architecture: Architecture, classes: int
) -> Files:
    """The files of an architecture in a format, by name."""
    chosen = ARCHITECTURE_FORMATS.find(target)
    written: Files = {"architecture.json": f"{to_json(architecture.to_json(), indent=2)}\n"}
    written.update(chosen.write(space, architecture, classes))
    if chosen.trains:
        kind = "images"
        values: dict[str, int | None] = {"CLASSES": classes, "SIDE": space.input_shape[-1]}
        if isinstance(space, TokenSpace):
            kind, values = "tokens", {"CONTEXT": min(space.context, 128)}
            values |= {"VOCABULARY": space.vocabulary, "MASK": space.mask}
        text = files("autoprox").joinpath(f"data/train_{kind}.py.txt").read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(f"{name} = ...", f"{name} = {value}")
        written["train.py"] = text
    return written
