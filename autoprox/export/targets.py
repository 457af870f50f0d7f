"""The forms in which an architecture is taken away, each as files by their names."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from autoprox.export.registry import ExportError
from autoprox.export.timm_network import timm_source
from autoprox.export.torch_network import torch_source
from autoprox.export.transformers_network import transformers_files
from autoprox.files.atomic_writes import to_json
from autoprox.registry import Registry
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.language_models import TokenSpace

Files = dict[str, str | bytes]


@dataclass(frozen=True)
class Target:
    """A form: it writes the files of an architecture's network for so many classes."""

    write: Callable[[SearchSpace, Architecture, int], Files]
    trains: bool = True  # beside its `network.py` with `build()` goes a script that trains it


TARGETS: Registry[Target] = Registry("targets", "form of an architecture", ExportError)


def architecture_files(
    target: str, space: SearchSpace, architecture: Architecture, classes: int
) -> Files:
    """The files of an architecture in a form, by name."""
    form = TARGETS.find(target)
    written: Files = {"architecture.json": f"{to_json(architecture.to_json(), indent=2)}\n"}
    written.update(form.write(space, architecture, classes))
    if form.trains:
        written["train.py"] = _script(space, classes)
    return written


def _script(space: SearchSpace, classes: int) -> str:
    """The script that trains a network of the space."""
    kind = "tokens" if isinstance(space, TokenSpace) else "images"
    text = files("autoprox").joinpath(f"data/train_{kind}.py.txt").read_text(encoding="utf-8")
    if isinstance(space, TokenSpace):
        values: dict[str, object] = {
            "CONTEXT": min(space.context, 128),
            "VOCABULARY": space.vocabulary,
            "MASK": space.mask,
        }
    else:
        values = {"CLASSES": classes, "SIDE": space.input_shape[-1]}
    for name, value in values.items():
        text = text.replace(f"{name} = ...", f"{name} = {value}")
    return text


def _torch(space: SearchSpace, architecture: Architecture, classes: int) -> Files:
    return {"network.py": torch_source(space, architecture, classes)}


def _timm(space: SearchSpace, architecture: Architecture, classes: int) -> Files:
    return {"network.py": timm_source(space, architecture, classes)}


TARGETS.register("json", Target(lambda space, architecture, classes: {}, trains=False))
TARGETS.register("torch", Target(_torch))
TARGETS.register("timm", Target(_timm))
TARGETS.register("transformers", Target(transformers_files))
