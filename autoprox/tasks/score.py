"""Scores models of any kind by a proxy, each with its own layers and inputs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.evaluator import Engine
from autoprox.errors import AutoproxError, MeasurementError, failure_of, nearest
from autoprox.files.sizes import short
from autoprox.inputs.batch import Batch, InputError
from autoprox.inputs.batch_loading import (
    DEFAULT_LENGTH,
    batch_shortfalls,
    load_image_batch,
    load_token_batch,
)
from autoprox.language import STRUCTURE, Tree, canonical, require_network, statistics
from autoprox.language.domains import parts_of
from autoprox.models.measured_layers import (
    Patterns,
    basic_domains,
    block_heads,
    block_layers,
    block_tokens,
    block_widths,
    find_family,
    find_layers,
    layer_weights,
    matching_layers,
)
from autoprox.models.memory import (
    activation_bytes,
    available_memory,
    needed_memory,
    parameter_bytes,
)
from autoprox.models.model_adapter import ModelAdapter, evaluating, logits_of, with_linear_layers
from autoprox.models.model_loading import LoadedModel, ModelError, load_model, load_model_outline
from autoprox.scoring.correlations import Floats
from autoprox.shortfalls import shortfalls
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import ModuleNetwork, Shape
from autoprox.statistics.sources import StreamedMatrices

EXAMPLES = 12  # names in a message
BATCH = 4  # images or sequences, unless said otherwise
INPUTS = "inputs"
NEEDED = {"msa", "mlp"}  # domains that a model may not lack, where they are read


@dataclass(frozen=True)
class Inputs:
    """What models see: images or a text, or else noise and random tokens."""

    images: Path | None = None
    text: Path | None = None
    batch_size: int | None = None  # BATCH
    length: int | None = None
    seed: int = 0

    def batch(self, loaded: LoadedModel) -> Batch:
        """For a model of these; the classes are as many as its logits."""
        if loaded.batch is not None:
            given = {"images": self.images, "text": self.text, "length": self.length}
            self._refuse(loaded, **given, batch_size=self.batch_size)
            return Batch(*loaded.batch, 0, "its own")
        size = BATCH if self.batch_size is None else self.batch_size
        if loaded.tokens is not None:
            self._refuse(loaded, images=self.images)
            length = (
                min(DEFAULT_LENGTH, loaded.tokens.context) if self.length is None else self.length
            )
            return load_token_batch(loaded.tokens, size, length, self.seed, self.text)
        self._refuse(loaded, text=self.text, length=self.length)
        shape = loaded.image or ()
        try:
            with torch.no_grad(), evaluating(loaded.model):
                classes = logits_of(loaded.model(torch.zeros(1, *shape))).shape[-1]
        except Exception as error:  # it isn't our code
            raise ModelError(
                f"{loaded.name} must map images {list(shape)} to logits, but "
                f"{failure_of(error)}; a function may return inputs and targets with its model"
            ) from error
        return load_image_batch("images", shape, size, self.seed, self.images, classes)

    def shape(self, loaded: LoadedModel) -> Tensor:
        """Return inputs of the shape that a library's model sees, without values."""
        size = BATCH if self.batch_size is None else self.batch_size
        if loaded.tokens is None:
            return torch.empty(size, *(loaded.image or ()), device="meta")
        length = min(DEFAULT_LENGTH, loaded.tokens.context) if self.length is None else self.length
        return torch.empty(size, length, dtype=torch.long, device="meta")

    def _refuse(self, loaded: LoadedModel, **options: object) -> None:
        for name, value in options.items():
            if value is not None:
                kind = "its own inputs" if loaded.batch else "tokens" if loaded.tokens else "images"
                raise InputError(f"{loaded.name} takes {kind}, which {name} {value} is not for")


@dataclass(frozen=True)
class MeasuredModel:
    """A model's layers, and the terms of a proxy: what depends on the model alone."""

    name: str
    family: str
    layers: dict[str, str]  # domains by name
    params: int
    inputs: str
    terms: tuple[float, ...]


def score_references(
    proxy: Tree,
    references: Sequence[str],
    inputs: Inputs,
    patterns: Patterns,
    pretrained: bool = False,
) -> dict[str, Any]:
    """Return the scores of models by reference, and where inputs are fewer than asked.

    A model of a library that the memory can't hold isn't loaded, another isn't measured.
    """
    outlines = {reference: load_model_outline(reference) for reference in references}
    known = [own for own in outlines.values() if own is not None]
    _require_memory(proxy, known, inputs, loaded=False)
    loaded = [load_model(reference, pretrained, inputs.seed) for reference in references]
    others = [own for own, ref in zip(loaded, references, strict=True) if outlines[ref] is None]
    _require_memory(proxy, others, inputs, loaded=True)
    models = [(one.name, one.model, inputs.batch(one)) for one in loaded]
    found = score_models(proxy, models, patterns, inputs.seed)
    batches = {name: batch for name, _, batch in models}
    counts = batch_shortfalls(inputs.batch_size or 0, batches)
    return {**found, "shortfalls": shortfalls(counts)}


def _require_memory(
    proxy: Tree, models: Sequence[LoadedModel], inputs: Inputs, loaded: bool
) -> None:
    """Raise MeasurementError if a score takes more memory than is available.

    What is counted are the parameters of all models, and what else the largest takes.
    """
    available = available_memory()
    if not models or available is None:
        return
    gradients = any(s.quantity != "weight" for s in statistics(proxy))
    own = {one.name: parameter_bytes(one.model) for one in models}
    beside = {
        one.name: needed_memory(
            own[one.name],
            0 if one.batch or loaded else activation_bytes(one.model, inputs.shape(one)),
            gradients,
        )
        - own[one.name]
        for one in models
    }
    largest = max(beside, key=lambda name: beside[name])
    needed = (0 if loaded else sum(own.values())) + beside[largest]
    if needed > available:
        params = short(sum(p.numel() for one in models for p in one.model.parameters()))
        raise MeasurementError(
            f"a score of {', '.join(own)} with {params} parameters takes at least {short(needed)}B "
            f"of memory, of which {short(available)}B are available; score a smaller model, "
            "fewer at once, or on a machine with more memory"
        )


def score_models(
    proxy: Tree, models: Sequence[tuple[str, nn.Module, Batch]], patterns: Patterns, seed: int = 0
) -> dict[str, Any]:
    """The scores of models by name, among each other where the proxy ranks, with their layers.

    A single model has no rank: then its score is None, and its terms are what is known.
    """
    tree = canonical(require_network(proxy))
    terms = terms_of(tree)
    _require_matches(patterns, models)
    measured = [_measured(tree, terms, *model, patterns, seed) for model in models]
    values = np.array([model.terms for model in measured])
    ranks = terms != (tree,)
    scores: Floats = compare(tree, dict(zip(terms, values.T, strict=True)))
    return {
        "proxy": str(proxy),
        "ranks": ranks,
        "models": [
            {
                "model": model.name,
                "score": None if ranks and len(models) == 1 else _plain(score),
                "terms": dict(zip(map(str, terms), map(_plain, model.terms), strict=True)),
                "params": model.params,
                "family": model.family,
                "layers": model.layers,
                "inputs": model.inputs,
            }
            for model, score in zip(measured, scores, strict=True)
        ],
    }


def _measured(
    tree: Tree,
    terms: Sequence[Tree],
    name: str,
    model: nn.Module,
    batch: Batch,
    patterns: Patterns,
    seed: int,
) -> MeasuredModel:
    """Measure one model, which is left as it was."""
    own = with_linear_layers(model)
    layers = find_layers(own, patterns or None)
    _require(tree, name, own, layers)
    try:
        network = _network(tree, own, layers, batch.inputs, seed)
        source = StreamedMatrices(Setting({INPUTS: batch}), [network], max_failed=1)
        values = Engine(source).evaluate(terms).values[:, 0, 0]
    except AutoproxError:
        raise
    except Exception as error:  # it isn't our code
        raise MeasurementError(f"{name} can't be measured: {failure_of(error)}") from error
    for failure in source.failures.values():
        raise MeasurementError(f"{name} can't be measured: {failure}")
    family = "by pattern" if patterns else find_family(own)
    params = sum(parameter.numel() for parameter in own.parameters())
    return MeasuredModel(name, family, layers, params, batch.source, tuple(values.tolist()))


def _require_matches(patterns: Patterns, models: Sequence[tuple[str, nn.Module, Batch]]) -> None:
    """Raise ModelError if a pattern matches no linear layer of any model."""
    names = [name for _, model, _ in models for name in layer_weights(model)]
    for domain, given in patterns.items():
        for pattern in given:
            if not matching_layers(names, pattern):
                parts = [name.split(".") for name in _short(names)]
                ends = [".".join(own[i:]) for own in parts for i in range(len(own))]
                close = nearest(pattern, ends).partition(";")[0]
                raise ModelError(
                    f"each --{domain} must match a linear layer of a model, but {pattern!r} "
                    f"matches none{close}; the layers are {_listed(names) or '(none)'}"
                )


def _require(tree: Tree, name: str, model: nn.Module, layers: dict[str, str]) -> None:
    """Raise the error of a model that lacks the layers which the proxy reads."""
    needed = {domain for s in statistics(tree) for domain in parts_of(s.domain)} & NEEDED
    if _symbols(tree) & {*STRUCTURE}:
        needed = NEEDED
    lacking = sorted(needed - set(layers.values()))
    if lacking:
        there = _listed(layers) or "none of a known family"
        raise ModelError(
            f"the proxy needs layers of {' and '.join(lacking)}, but of {name} it finds {there}; "
            f"name them by {' and '.join(f'--{domain} PATTERN' for domain in lacking)}, "
            f"of its linear layers {_listed(layer_weights(model)) or '(it has none)'}"
        )


def _network(
    tree: Tree, model: nn.Module, layers: dict[str, str], inputs: Tensor, seed: int
) -> ModuleNetwork:
    """The model to be measured; of its blocks the structure that the proxy reads."""
    symbols = _symbols(tree)
    count = len(block_layers(layers))
    nothing = [0] * count
    shapes = zip(
        block_widths(model, layers) if "width" in symbols else nothing,
        block_tokens(model, layers, inputs) if "tokens" in symbols else nothing,
        block_heads(model, layers) if "heads" in symbols else nothing,
        strict=True,
    )
    named: dict[str, list[str]] = {}
    for layer, domains in basic_domains(model, layers).items():
        for domain in domains:
            kind = "pool" if domain in parts_of("pool") else domain
            named.setdefault(kind, []).append(f"model.{layer}")
    named.pop("other", None)
    final = f"model.{list(block_layers(layers))[-1]}".rstrip(".") if layers else None
    foreign = ModelAdapter(model)
    return ModuleNetwork(foreign, named, [Shape(*s) for s in shapes], final_block=final, seed=seed)


def _symbols(tree: Tree) -> set[str]:
    return {tree.symbol}.union(*map(_symbols, tree.args))


def _short(names: Iterable[str]) -> list[str]:
    """Return the names with * for numbers, each once."""
    return list(dict.fromkeys(re.sub(r"\b\d+\b", "*", name) for name in names))


def _listed(names: Iterable[str]) -> str:
    """Join the first short names, and count the others."""
    short = _short(names)
    more = f" and {len(short) - EXAMPLES} more" if len(short) > EXAMPLES else ""
    return ", ".join(short[:EXAMPLES]) + more


def _plain(score: float) -> float | None:
    """None where a score isn't finite, for which JSON has no word."""
    return float(score) if np.isfinite(score) else None
