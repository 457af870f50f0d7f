"""Models by name: of timm, of transformers, or what a function of the user returns."""

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from autoprox.errors import AutoproxError, nearest, one_line
from autoprox.files.python_code import load_function

IMAGE = (3, 224, 224)
UNKNOWN = 2**31  # the context of a model that doesn't say it: any length may be asked for
MASKS = {
    "bert": 103,
    "distilbert": 103,
    "electra": 103,
    "roberta": 50264,
}  # which token hides others, unless the last
HEADS = ("ImageClassification", "MaskedLM", "CausalLM")  # of transformers, the first that there is
OPERATOR = re.compile(r'register_fake\("torchvision::(\w+)"\)')


class ModelError(AutoproxError):
    """A model that can't be loaded, or whose layers aren't known."""


@dataclass(frozen=True)
class TokenModel:
    """What a language model reads."""

    name: str
    vocabulary: int
    context: int
    objective: Literal["causal", "masked"]
    mask: int | None


@dataclass(frozen=True)
class LoadedModel:
    """A model, and what it sees: images, tokens, or inputs with targets that come with it."""

    name: str
    model: nn.Module
    image: tuple[int, ...] | None = None
    tokens: TokenModel | None = None
    batch: tuple[Tensor, Tensor] | None = None


def load_model(reference: str, pretrained: bool = False, seed: int = 0) -> LoadedModel:
    """The model of `timm:NAME`, `transformers:NAME` or `MODULE:FUNCTION`.

    Its weights are random, drawn from the seed by the model's own rule, unless `pretrained`.
    """
    source, colon, name = reference.partition(":")
    if not (source and colon and name):
        raise ModelError(
            "a model must be timm:NAME, transformers:NAME or MODULE:FUNCTION, "
            f"but got {reference!r}"
        )
    if pretrained and source not in LIBRARIES:
        raise ModelError(f"pretrained is for {' and '.join(LIBRARIES)}, but got {reference!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if source in LIBRARIES:
            return LIBRARIES[source](name, pretrained)
        return _of_function(reference)


def outline(reference: str) -> LoadedModel | None:
    """Return a library's model without values, on torch's meta device; None if it can't be made.

    What is wrong with a reference is for `load_model` to say.
    """
    source, _, name = reference.partition(":")
    if source not in LIBRARIES:
        return None
    try:
        with torch.device("meta"):
            return LIBRARIES[source](name, False)
    except ModelError:
        return None


def _of_timm(name: str, pretrained: bool) -> LoadedModel:
    timm = import_library("timm")
    if not timm.is_model(name):
        raise ModelError(f"timm has no model {name!r}{_close(name, timm.list_models())}")
    try:
        model = timm.create_model(name, pretrained=pretrained)
    except Exception as error:  # it isn't our code
        raise ModelError(f"timm can't make {name}: {one_line(error)}") from error
    return LoadedModel(f"timm:{name}", model, tuple(model.pretrained_cfg["input_size"]))


def declare_operators() -> None:
    """Declare torchvision's compiled operators where it was built for another device than torch.

    Without them it can't be imported, nor what imports it; no model here calls them.
    """
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None or "torchvision" in sys.modules:
        return
    folder = Path(spec.origin).parent
    try:
        for compiled in folder.glob("_C.*"):
            torch.ops.load_library(compiled)  # type: ignore[no-untyped-call]
    except OSError:
        registrations = (folder / "_meta_registrations.py").read_text(encoding="utf-8")
        for name in OPERATOR.findall(registrations):
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(f"torchvision::{name}", "(Tensor x) -> Tensor")


def import_library(name: str) -> Any:
    """timm or transformers."""
    declare_operators()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = f"models of {name} need it installed: pip install {name}"
        raise ModelError(f"{rule}, but {one_line(error)}") from error


def _of_transformers(name: str, pretrained: bool) -> LoadedModel:
    library = import_library("transformers")
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity_error()
    try:
        config = _config(library, name)
        kind = _model_class(library, config)
        model = kind.from_pretrained(name) if pretrained else kind._from_config(config)
    except ModelError:
        raise
    except Exception as error:  # it isn't our code
        raise ModelError(f"transformers can't make {name}: {one_line(error)}") from error
    finally:
        library.logging.set_verbosity(verbosity)
    return _described(f"transformers:{name}", model, config)


def _config(library: Any, name: str) -> Any:
    """Of a folder, of a kind of model, or of the hub."""
    kinds = library.models.auto.configuration_auto.CONFIG_MAPPING
    if name in kinds and not Path(name).exists():
        return library.AutoConfig.for_model(name)
    return library.AutoConfig.from_pretrained(name)


def _model_class(library: Any, config: Any) -> Any:
    """The class that the configuration names, or one with the first head that there is."""
    for architecture in config.architectures or ():
        if hasattr(library, architecture):
            return getattr(library, architecture)
    for head in HEADS:
        mapping = getattr(library, f"AutoModelFor{head}")._model_mapping
        if type(config) in mapping:
            return mapping[type(config)]
    raise ModelError(
        f"a model of transformers must have a head of {', '.join(HEADS)}, "
        f"but {config.model_type} has none"
    )


def _described(name: str, model: nn.Module, config: Any) -> LoadedModel:
    if not hasattr(config, "vocab_size"):
        side = config.image_size
        height, width = (side, side) if isinstance(side, int) else side
        return LoadedModel(name, model, (config.num_channels, height, width))
    objective: Literal["causal", "masked"]
    objective = "masked" if "MaskedLM" in type(model).__name__ else "causal"
    mask = MASKS.get(config.model_type, config.vocab_size - 1) if objective == "masked" else None
    context = config.max_position_embeddings
    tokens = TokenModel(name, config.vocab_size, context, objective, mask)
    return LoadedModel(name, model, tokens=tokens)


def _of_function(reference: str) -> LoadedModel:
    """A model that sees tokens, or images, or one with its inputs and targets."""
    function = load_function(reference, "a model", ModelError)
    rule = f"{reference} must return a module, or a module with inputs and targets"
    try:
        made = function()
    except Exception as error:  # it isn't our code
        raise ModelError(f"{rule}, but raises {one_line(error)}") from error
    parts = made if isinstance(made, tuple) else (made,)
    kinds = (nn.Module, Tensor, Tensor)
    fits = len(parts) in (1, 3) and all(map(isinstance, parts, kinds))
    if not fits:
        raise ModelError(f"{rule}, but returns {type(made).__name__}")
    if len(parts) == 1:
        return _by_its_inputs(reference, parts[0])
    return LoadedModel(reference, parts[0], batch=(parts[1], parts[2]))


def _by_its_inputs(name: str, model: nn.Module) -> LoadedModel:
    """Find what a model sees: by its configuration, or by the first of its layers.

    One that begins with an embedding, or whose forward takes `input_ids`, reads tokens; any other
    sees images, of the usual size unless its configuration has one.
    """
    config = getattr(model, "config", None)
    if all(hasattr(config, key) for key in ("vocab_size", "max_position_embeddings")) or all(
        hasattr(config, key) for key in ("image_size", "num_channels")
    ):
        return _described(name, model, config)
    embedding = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    own = (m for m in model.modules() if any(True for _ in m.parameters(recurse=False)))
    takes_ids = "input_ids" in signature(model.forward).parameters
    if embedding is None or not (takes_ids or next(own) is embedding):
        return LoadedModel(name, model, IMAGE)
    tokens = TokenModel(name, embedding.num_embeddings, UNKNOWN, "causal", None)
    return LoadedModel(name, model, tokens=tokens)


def _close(name: str, known: list[str]) -> str:
    """The nearest name of a library's many."""
    return nearest(name, known).partition(";")[0]


LIBRARIES: Mapping[str, Callable[[str, bool], LoadedModel]] = {
    "timm": _of_timm,
    "transformers": _of_transformers,
}
