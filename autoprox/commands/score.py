"""The command `score`: score models of any kind by a proxy, each with its own layers and inputs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from autoprox.configurations.shared_options import (
    DEFAULT_WEIGHTS,
    SHARED,
    WEIGHTS,
    require_choice,
)
from autoprox.engine.per_network_terms import combine_terms, proxy_terms
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError, MeasurementError, failure_of, nearest
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.files.json_documents import JSONDocument
from autoprox.inputs.batch import Batch, InputError
from autoprox.inputs.batch_loading import (
    DEFAULT_LENGTH,
    batch_shortfalls,
    load_image_batch,
    load_token_batch,
)
from autoprox.language import STRUCTURE, Tree, canonical, require_complete_proxy, statistics
from autoprox.language.layer_domains import single_domains_of
from autoprox.models.measured_layers import (
    LayerPatterns,
    block_heads,
    block_layers,
    block_tokens,
    block_widths,
    find_layers,
    find_model_family,
    layer_weights,
    matching_layers,
    single_domains_by_layer,
)
from autoprox.models.memory_estimate import (
    activation_bytes,
    available_memory,
    needed_memory,
    parameter_bytes,
)
from autoprox.models.model_adapter import (
    ModelAdapter,
    conv1d_to_linear,
    evaluation_mode,
    output_logits,
)
from autoprox.models.model_loading import LoadedModel, ModelError, load_meta_model, load_model
from autoprox.scoring.bootstrap import Number, finite_or_none
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import BlockShape, ModuleNetwork

MAX_NAMES = 12  # in a message
DEFAULT_BATCH = 4  # images or sequences
REQUIRED_DOMAINS = {"msa", "mlp"}  # domains that a model must have if the proxy reads them


class ScoredModel(JSONDocument):
    """A model with its score, and the terms of the proxy that depend on the model alone."""

    model: str
    score: Number
    terms: dict[str, Number]
    params: int
    family: str
    layers: Annotated[dict[str, str], Field(description="The domain of each layer, by its name.")]
    inputs: str


class ModelScores(JSONDocument):
    """The scores of models by a proxy."""

    proxy: str
    ranks: bool
    models: tuple[ScoredModel, ...]
    weights: Annotated[str, Field(description="fresh, shared, pretrained or given.")] = "given"
    evolved_with: Annotated[
        str | None,
        Field(description="The weights that the proxy was evolved with, if they are known."),
    ] = None
    found_on: Annotated[
        str | None, Field(description="The space on which the proxy was found, if it was on one.")
    ] = None
    shortfalls: tuple[Shortfall, ...] = ()


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of models: images or a text, or else noise and random tokens."""

    images: Path | None = None
    text: Path | None = None
    batch_size: int | None = None
    length: int | None = None
    seed: int = 0

    def batch(self, loaded: LoadedModel) -> Batch:
        """Return a batch for a model of these, with labels of as many classes as its logits."""
        if loaded.batch is not None:
            given = {"images": self.images, "text": self.text, "length": self.length}
            self._refuse(loaded, **given, batch_size=self.batch_size)
            return Batch(*loaded.batch, 0, "its own")
        size = self.batch_size or DEFAULT_BATCH
        if loaded.tokens is not None:
            self._refuse(loaded, images=self.images)
            length = self.length or min(DEFAULT_LENGTH, loaded.tokens.context)
            return load_token_batch(loaded.tokens, size, length, self.seed, self.text)
        self._refuse(loaded, text=self.text, length=self.length)
        shape = loaded.image or ()
        try:
            with torch.no_grad(), evaluation_mode(loaded.model):
                classes = output_logits(loaded.model(torch.zeros(1, *shape))).shape[-1]
        except Exception as error:  # it isn't our code
            raise ModelError(
                f"{loaded.name} must map images {list(shape)} to logits, but "
                f"{failure_of(error)}; a function may return inputs and targets with its model"
            ) from error
        return load_image_batch("images", shape, size, self.seed, self.images, classes)

    def empty(self, loaded: LoadedModel) -> Tensor:
        """Return inputs of the shape that a library's model takes, without values."""
        size = self.batch_size or DEFAULT_BATCH
        if loaded.tokens is None:
            return torch.empty(size, *(loaded.image or ()), device="meta")
        length = self.length or min(DEFAULT_LENGTH, loaded.tokens.context)
        return torch.empty(size, length, dtype=torch.long, device="meta")

    def _refuse(self, loaded: LoadedModel, **options: object) -> None:
        for name, value in options.items():
            if value is not None:
                kind = "its own inputs" if loaded.batch else "tokens" if loaded.tokens else "images"
                raise InputError(f"{loaded.name} takes {kind}, which {name} {value} is not for")


def score_model_references(
    proxy: Tree,
    references: Sequence[str],
    inputs: ModelInputs,
    patterns: LayerPatterns,
    pretrained: bool = False,
    weights: str = DEFAULT_WEIGHTS,
) -> ModelScores:
    """Score models by reference, and report if inputs are fewer than asked.

    If the memory can't hold a model, a library's isn't loaded, and any other isn't measured.
    """
    require_choice("weights", weights, WEIGHTS)
    outlines = {reference: load_meta_model(reference) for reference in references}
    known = [own for own in outlines.values() if own is not None]
    _require_memory(proxy, known, inputs, loaded=False)
    shared = weights == SHARED
    loaded = [load_model(reference, pretrained, inputs.seed, shared) for reference in references]
    others = [own for own, ref in zip(loaded, references, strict=True) if outlines[ref] is None]
    _require_memory(proxy, others, inputs, loaded=True)
    models = [(one.name, one.model, inputs.batch(one)) for one in loaded]
    scores = score_models(proxy, models, patterns, inputs.seed)
    counts = batch_shortfalls(inputs.batch_size or 0, {name: batch for name, _, batch in models})
    drawn = "pretrained" if pretrained else weights
    return scores.model_copy(update={"shortfalls": unmet(counts), "weights": drawn})


def _require_memory(
    proxy: Tree, models: Sequence[LoadedModel], inputs: ModelInputs, loaded: bool
) -> None:
    """Raise MeasurementError if a score takes more memory than is available.

    A score takes the parameters of all models, and whatever else the largest model needs.
    """
    available = available_memory()
    if not models or available is None:
        return
    gradients = any(s.quantity != "weight" for s in statistics(proxy))
    parameters = {one.name: parameter_bytes(one.model) for one in models}
    needed = 0 if loaded else sum(parameters.values())
    needed += max(
        needed_memory(
            parameters[one.name],
            0 if one.batch or loaded else activation_bytes(one.model, inputs.empty(one)),
            gradients,
        )
        - parameters[one.name]
        for one in models
    )
    if needed > available:
        params = format_with_unit(sum(p.numel() for one in models for p in one.model.parameters()))
        raise MeasurementError(
            f"a score of {', '.join(parameters)} with {params} parameters takes at least "
            f"{format_with_unit(needed)}B of memory, of which {format_with_unit(available)}B are "
            "available; score a smaller model, fewer at once, or on a machine with more memory"
        )


def score_models(
    proxy: Tree,
    models: Sequence[tuple[str, nn.Module, Batch]],
    patterns: LayerPatterns,
    seed: int = 0,
) -> ModelScores:
    """Score models by name, relative to each other if the proxy ranks.

    A single model has no rank: then its score is None, and only its terms are known.
    """
    tree = canonical(require_complete_proxy(proxy))
    terms = proxy_terms(tree)
    ranks = terms != (tree,)
    _require_matches(patterns, models)
    measured, values = list[ScoredModel](), list[list[float]]()
    for name, model, batch in models:
        own = conv1d_to_linear(model)
        layers = find_layers(own, patterns or None)
        _require_layers(tree, name, own, layers)
        values.append(_measure(tree, terms, name, own, layers, batch, seed))
        scored = ScoredModel(
            model=name,
            score=None,
            terms=dict(zip(map(str, terms), map(finite_or_none, values[-1]), strict=True)),
            params=sum(parameter.numel() for parameter in own.parameters()),
            family="by pattern" if patterns else find_model_family(own),
            layers=layers,
            inputs=batch.source,
        )
        measured.append(scored)
    if not (ranks and len(models) == 1):
        scores = combine_terms(tree, dict(zip(terms, np.array(values).T, strict=True)))
        measured = [
            own.model_copy(update={"score": finite_or_none(score)})
            for own, score in zip(measured, scores, strict=True)
        ]
    return ModelScores(proxy=str(proxy), ranks=ranks, models=tuple(measured))


def _measure(
    tree: Tree,
    terms: Sequence[Tree],
    name: str,
    model: nn.Module,
    layers: dict[str, str],
    batch: Batch,
    seed: int,
) -> list[float]:
    """Measure the terms of one model, which is left as it was."""
    try:
        network = _network(tree, model, layers, batch.inputs, seed)
        source = UncachedMatrices(MeasurementSetting({"inputs": batch}), [network], max_failed=1)
        values: list[float] = TreeEvaluator(source).evaluate(terms).values[:, 0, 0].tolist()
    except AutoproxError:
        raise
    except Exception as error:  # it isn't our code
        raise MeasurementError(f"{name} can't be measured: {failure_of(error)}") from error
    for failure in source.failures.values():
        raise MeasurementError(f"{name} can't be measured: {failure}")
    return values


def _require_matches(
    patterns: LayerPatterns, models: Sequence[tuple[str, nn.Module, Batch]]
) -> None:
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


def _require_layers(tree: Tree, name: str, model: nn.Module, layers: dict[str, str]) -> None:
    """Raise the error of a model that lacks the layers which the proxy reads."""
    needed = {
        domain for s in statistics(tree) for domain in single_domains_of(s.domain)
    } & REQUIRED_DOMAINS
    if _symbols(tree) & {*STRUCTURE}:
        needed = REQUIRED_DOMAINS
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
    """Return the model as a network, with the structure of its blocks that the proxy reads."""
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
    for layer, domains in single_domains_by_layer(model, layers).items():
        for domain in domains:
            kind = "pool" if domain in single_domains_of("pool") else domain
            named.setdefault(kind, []).append(f"model.{layer}")
    named.pop("other", None)
    final = f"model.{list(block_layers(layers))[-1]}".rstrip(".") if layers else None
    foreign = ModelAdapter(model)
    return ModuleNetwork(
        foreign, named, [BlockShape(*s) for s in shapes], final_block=final, seed=seed
    )


def _symbols(tree: Tree) -> set[str]:
    return {tree.symbol}.union(*map(_symbols, tree.args))


def _short(names: Iterable[str]) -> list[str]:
    """Return the names with * for numbers, each once."""
    return list(dict.fromkeys(re.sub(r"\b\d+\b", "*", name) for name in names))


def _listed(names: Iterable[str]) -> str:
    """Join the first short names, and count the others."""
    compact = _short(names)
    more = f" and {len(compact) - MAX_NAMES} more" if len(compact) > MAX_NAMES else ""
    return ", ".join(compact[:MAX_NAMES]) + more
