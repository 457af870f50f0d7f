"""Loads models by name: of timm, of transformers, or from a function of the user."""

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from autoprox.errors import AutoproxError, nearest, one_line
from autoprox.files.function_import_and_digest import load_function
from autoprox.searchspaces.shared_draws import made_with_shared_draws

DEFAULT_IMAGE = (3, 224, 224)
UNKNOWN_CONTEXT = 2**31  # of a model that doesn't give it: any length may be asked for
MASK_TOKENS = {"bert": 103, "distilbert": 103, "electra": 103, "roberta": 50264}  # else the last
MODEL_HEADS = ("ImageClassification", "MaskedLM", "CausalLM")  # of transformers, in this order
OPERATOR = re.compile(r'register_fake\("torchvision::(\w+)"\)')


class ModelError(AutoproxError):
    """A model that can't be loaded, or whose layers aren't known."""


@dataclass(frozen=True)
class TokenInput:
    """The tokens that a language model reads."""

    name: str
    vocabulary: int
    context: int
    objective: Literal["causal", "masked"]
    mask: int | None


@dataclass(frozen=True)
class LoadedModel:
    """A model, and its input: images, tokens, or a batch with targets that comes with it."""

    name: str
    model: nn.Module
    image: tuple[int, ...] | None = None
    tokens: TokenInput | None = None
    batch: tuple[Tensor, Tensor] | None = None


def load_model(
    reference: str, pretrained: bool = False, seed: int = 0, shared: bool = False
) -> LoadedModel:
    """Load the model of `timm:NAME`, `transformers:NAME` or `MODULE:FUNCTION`.

    Its weights are random, drawn from the seed by the model's own rule, unless `pretrained`. If
    they are `shared`, parameters are slices of draws that all models with the seed share.
    """
    source, colon, name = reference.partition(":")
    if not (source and colon and name):
        raise ModelError(
            "a model must be timm:NAME, transformers:NAME or MODULE:FUNCTION, "
            f"but got {reference!r}"
        )
    if pretrained and source not in LIBRARIES:
        raise ModelError(f"pretrained is for {' and '.join(LIBRARIES)}, but got {reference!r}")
    if pretrained and shared:
        raise ModelError("pretrained weights aren't drawn, so that they can't be shared")

    def load() -> LoadedModel:
        torch.manual_seed(seed)
        if source in LIBRARIES:
            return LIBRARIES[source](name, pretrained)
        return _load_from_function(reference)

    with torch.random.fork_rng(devices=[]):
        return made_with_shared_draws(load, attrgetter("model"), seed) if shared else load()


def load_meta_model(reference: str) -> LoadedModel | None:
    """Load a library's model without values, on torch's meta device; None if it can't be made.

    An error of the reference is left to `load_model`.
    """
    source, _, name = reference.partition(":")
    if source not in LIBRARIES:
        return None
    try:
        with torch.device("meta"):
            return LIBRARIES[source](name, False)
    except ModelError:
        return None


def declare_torchvision_operators() -> None:
    """Declare torchvision's compiled operators if it was built for another device than torch.

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
    """Import timm or transformers."""
    declare_torchvision_operators()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = f"models of {name} need it installed: pip install {name}"
        raise ModelError(f"{rule}, but {one_line(error)}") from error


def _load_from_timm(name: str, pretrained: bool) -> LoadedModel:
    timm = import_library("timm")
    if not timm.is_model(name):
        closest = nearest(name, timm.list_models()).partition(";")[0]  # without the long list
        raise ModelError(f"timm has no model {name!r}{closest}")
    try:
        model = timm.create_model(name, pretrained=pretrained)
    except Exception as error:  # it isn't our code
        raise ModelError(f"timm can't make {name}: {one_line(error)}") from error
    return LoadedModel(f"timm:{name}", model, tuple(model.pretrained_cfg["input_size"]))


def _load_from_transformers(name: str, pretrained: bool) -> LoadedModel:
    library = import_library("transformers")
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity_error()
    try:
        kinds = library.models.auto.configuration_auto.CONFIG_MAPPING
        if name in kinds and not Path(name).exists():
            config = library.AutoConfig.for_model(name)
        else:  # of a folder or of the hub
            config = library.AutoConfig.from_pretrained(name)
        kind = _model_class(library, config)
        model = kind.from_pretrained(name) if pretrained else kind._from_config(config)
    except ModelError:
        raise
    except Exception as error:  # it isn't our code
        raise ModelError(f"transformers can't make {name}: {one_line(error)}") from error
    finally:
        library.logging.set_verbosity(verbosity)
    return _with_input(f"transformers:{name}", model, config)


def _model_class(library: Any, config: Any) -> Any:
    """Return the class that the configuration names, or one with the first head that exists."""
    for architecture in config.architectures or ():
        if hasattr(library, architecture):
            return getattr(library, architecture)
    for head in MODEL_HEADS:
        mapping = getattr(library, f"AutoModelFor{head}")._model_mapping
        if type(config) in mapping:
            return mapping[type(config)]
    raise ModelError(
        f"a model of transformers must have a head of {', '.join(MODEL_HEADS)}, "
        f"but {config.model_type} has none"
    )


def _with_input(name: str, model: nn.Module, config: Any) -> LoadedModel:
    """Find a model's input by its configuration."""
    if not hasattr(config, "vocab_size"):
        side = config.image_size
        height, width = (side, side) if isinstance(side, int) else side
        return LoadedModel(name, model, (config.num_channels, height, width))
    is_masked = "MaskedLM" in type(model).__name__
    mask = MASK_TOKENS.get(config.model_type, config.vocab_size - 1) if is_masked else None
    objective: Literal["causal", "masked"] = "masked" if is_masked else "causal"
    context = config.max_position_embeddings
    tokens = TokenInput(name, config.vocab_size, context, objective, mask)
    return LoadedModel(name, model, tokens=tokens)


def _load_from_function(reference: str) -> LoadedModel:
    """Call a function that returns a model, or one with its inputs and targets.

    A model alone has the input of its configuration. Otherwise one that begins with an embedding,
    or whose forward takes `input_ids`, reads tokens; any other sees images of the usual size.
    """
    function = load_function(reference, "a model", ModelError)
    rule = f"{reference} must return a module, or a module with inputs and targets"
    try:
        made = function()
    except Exception as error:  # it isn't our code
        raise ModelError(f"{rule}, but raises {one_line(error)}") from error
    parts = made if isinstance(made, tuple) else (made,)
    if len(parts) not in (1, 3) or not all(map(isinstance, parts, (nn.Module, Tensor, Tensor))):
        raise ModelError(f"{rule}, but returns {type(made).__name__}")
    if len(parts) == 3:
        return LoadedModel(reference, parts[0], batch=(parts[1], parts[2]))
    model = parts[0]
    config = getattr(model, "config", None)
    for keys in (("vocab_size", "max_position_embeddings"), ("image_size", "num_channels")):
        if all(hasattr(config, key) for key in keys):
            return _with_input(reference, model, config)
    embedding = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    with_weights = (m for m in model.modules() if any(True for _ in m.parameters(recurse=False)))
    takes_ids = "input_ids" in signature(model.forward).parameters
    if embedding is None or not (takes_ids or next(with_weights) is embedding):
        return LoadedModel(reference, model, DEFAULT_IMAGE)
    tokens = TokenInput(reference, embedding.num_embeddings, UNKNOWN_CONTEXT, "causal", None)
    return LoadedModel(reference, model, tokens=tokens)


LIBRARIES: Mapping[str, Callable[[str, bool], LoadedModel]] = {
    "timm": _load_from_timm,
    "transformers": _load_from_transformers,
}
