"""The functions with which an exported proxy measures a model, in few lines.

Exported proxies contain the functions of this file: they import nothing but torch.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from autoprox.models.measured_layers import IN_PROJECTION, LayerPatterns, block_layers, find_layers
from autoprox.models.model_adapter import ModelAdapter, is_conv1d

NOT_PREDICTED = -100  # the target of a token that isn't to be predicted
MATRIX, LAYERS = (-2, -1), (-1,)  # the dimensions of a matrix, and of a number for each layer


def layers_of(model: nn.Module, patterns: LayerPatterns | None = None) -> dict[str, str]:
    """The domain of each layer that is measured."""
    layers = find_layers(model, patterns)
    if not layers:
        rule = "a model must have layers of a known family, or named by patterns of each domain"
        raise ValueError(f"{rule}: {{'msa': ['attn.qkv', 'attn.proj'], 'mlp': ['fc1', 'fc2']}}")
    return layers


def measure_model(
    model: nn.Module,
    layers: Mapping[str, Sequence[str]],
    probe: str,
    inputs: Tensor,
    targets: Tensor,
    seed: int = 0,
) -> dict[str, list[Tensor]]:
    """Weights, outputs and the gradients of both for each layer in depth order, by `domain.name`.

    They are matrices: weights with a row for each output, outputs with one for each token. `layers`
    has the domains of each layer.

    The probe is `data` (cross-entropy), `ones` (absolute weights, an input of ones, the sum of the
    outputs), `ntk` (the last block's output times random signs) or `none` (only the weights).
    """
    network = ModelAdapter(model)
    values = {name: p.detach() for name, p in network.named_parameters()}
    if probe == "ones":
        values = {name: value.abs() for name, value in values.items()}
    parameters = [f"{n}{'_weight' if n.endswith(IN_PROJECTION) else '.weight'}" for n in layers]
    weights = {n: values[f"model.{p}"] for n, p in zip(layers, parameters, strict=True)}
    found = {"weight": weights}
    if probe != "none":
        for weight in weights.values():
            weight.requires_grad_()
        state = values | {name: buffer.clone() for name, buffer in network.named_buffers()}
        outputs, loss = run_probe(network, state, layers, probe, inputs, targets, seed)
        reached = [*weights.values(), *outputs.values()]
        gradients = torch.autograd.grad(loss, reached, materialize_grads=True)
        found["grad"] = dict(zip(weights, gradients, strict=False))
        found["act"] = outputs
        found["act_grad"] = dict(zip(outputs, gradients[len(weights) :], strict=True))
    modules = dict(network.model.named_modules())
    by_domain: dict[str, list[Tensor]] = defaultdict(list)
    for quantity, tensors in found.items():
        for layer, value in tensors.items():
            if quantity in ("act", "act_grad"):
                matrix = value.detach().flatten(0, -2)
            elif layer in modules and is_conv1d(modules[layer]):
                matrix = value.detach().T
            else:
                matrix = value.detach().flatten(1)
            for domain in layers[layer]:
                by_domain[f"{domain}.{quantity}"].append(matrix.float())
    return by_domain


def run_probe(
    network: ModelAdapter,
    state: dict[str, Tensor],
    layers: Mapping[str, Sequence[str]],
    probe: str,
    inputs: Tensor,
    targets: Tensor,
    seed: int,
) -> tuple[dict[str, Tensor], Tensor]:
    """The outputs of the layers of the MLPs, and the loss."""
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: object, output: Tensor | tuple[Tensor, ...]) -> None:
            kept[name] = output[0] if isinstance(output, tuple) else output

        return hook

    last = list(block_layers({layer: own[0] for layer, own in layers.items() if "all" in own}))[-1]
    names = [*(layer for layer, domains in layers.items() if "mlp" in domains), last]
    modules = [network.model.get_submodule(name) for name in names]
    pairs = zip(names, modules, strict=True)
    handles = [module.register_forward_hook(keep(name)) for name, module in pairs]
    try:
        given = network.ones(inputs) if probe == "ones" else inputs
        logits = functional_call(network, state, (given,))
    finally:
        for handle in handles:
            handle.remove()
    final = kept.pop(last)
    if probe == "ones":
        return kept, logits.sum()
    if probe == "ntk":
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, final.shape, generator=generator) * 2.0 - 1.0
        return kept, (final * signs.to(final.device)).sum()
    flat = logits.flatten(0, -2)
    return kept, functional.cross_entropy(flat, targets.flatten(), ignore_index=NOT_PREDICTED)


def each(function: Callable[..., Tensor], *matrices: Sequence[Tensor]) -> Tensor:
    """The function of each layer's matrices, as a vector over the layers."""
    values = [function(*layer) for layer in zip(*matrices, strict=True)]
    return torch.stack(values) if values else torch.zeros(0, dtype=torch.float64)


def repeated(matrices: Sequence[Tensor], times: int) -> list[Tensor]:
    """Outputs for one input, repeated for each input of a batch."""
    return [matrix.repeat(times, 1) for matrix in matrices]
