"""The layers of a model that are measured, by their names, and the structure of its blocks.

Exported proxies contain the definitions of this file: it imports nothing but torch.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from autoprox.language.layer_domains import DOMAINS, single_domains_of
from autoprox.models.model_adapter import ModelAdapter, is_conv1d

IN_PROJECTION = ".in_proj"  # stands for the parameter that makes queries, keys and values in torch
HEAD_COUNTS = ("heads", "num_heads", "num_attention_heads", "n_heads", "n_head")
LayerPatterns = Mapping[str, Iterable[str]]  # of names, or ends of names, by domain

FAMILIES: Mapping[str, LayerPatterns] = {
    "timm": {"msa": ("attn.qkv", "attn.proj"), "mlp": ("mlp.fc1", "mlp.fc2")},
    "bert": {
        "msa": ("attention.self.*", "attention.attention.*", "attention.output.dense"),
        "mlp": ("intermediate.dense", "output.dense"),
    },
    "vit": {"msa": ("attention.[qkvo]_proj",), "mlp": ("mlp.fc1", "mlp.fc2")},
    "distilbert": {"msa": ("attention.*_lin",), "mlp": ("ffn.lin1", "ffn.lin2")},
    "gpt2": {"msa": ("attn.c_attn", "attn.c_proj"), "mlp": ("mlp.c_fc", "mlp.c_proj")},
    "llama": {"msa": ("self_attn.*_proj",), "mlp": ("mlp.*_proj",)},
    "torch": {"msa": ("self_attn.*", "multihead_attn.*"), "mlp": ("linear1", "linear2")},
    "autoprox": {
        "msa": ("qkv", "q", "scales.*.kv", "mixer.*", "proj"),
        "mlp": ("fc1", "fc2", "hidden.*", "output"),
    },
}
# The ends of names of the layers that make queries, keys and values, of those between stages, and
# of the classifier; the convolutions before the first block are the stem.
QKV_ENDS = (
    *("qkv", "q", "scales.*.kv", "mixer.qkv", "mixer.input", "attn.c_attn", "in_proj"),
    *("attention.self.*", "attention.attention.*", "attention.[qkv]_*", "self_attn.[qkv]_proj"),
)
POOL_ENDS = ("pool.*", "downsample.*", "embedding.convolution", "blocks.*.fc", "blocks.*.conv")
CLASSIFIER_ENDS = ("head", "head.fc", "classifier")


def layer_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weight of every linear layer by the layer's name, in depth order."""
    found: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
            found[name + IN_PROJECTION] = module.in_proj_weight
        elif isinstance(module, nn.Linear) or is_conv1d(module):
            found[name] = module.weight
    return found


def find_layers(model: nn.Module, patterns: LayerPatterns | None = None) -> dict[str, str]:
    """Return the domain of each layer that is measured, by name, in depth order.

    A name counts for the first domain with a pattern that it matches, as a whole or with its end.
    Without patterns they are those of the model's family.
    """
    if patterns is None:
        patterns = FAMILIES.get(find_model_family(model), {})
    return _assign_domains(layer_weights(model), patterns)


def find_model_family(model: nn.Module) -> str:
    """Return the family that finds most layers, and some of each of its domains, or ""."""
    names = list(layer_weights(model))
    found = {family: _assign_domains(names, patterns) for family, patterns in FAMILIES.items()}
    complete = [f for f, layers in found.items() if set(layers.values()) == set(FAMILIES[f])]
    return max(complete, key=lambda family: len(found[family]), default="")


def matching_layers(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names of layers that match a pattern, as a whole or with their ends."""
    return [name for name in names if _ends(name, (pattern,))]


def _assign_domains(names: Iterable[str], patterns: LayerPatterns) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        domains = (domain for domain, ends in patterns.items() if _ends(name, ends))
        if domain := next(domains, None):
            found[name] = domain
    return found


def _ends(name: str, ends: Iterable[str]) -> bool:
    return any(fnmatchcase(f".{name}", f"*.{end}") for end in ends)


def single_domains_by_layer(model: nn.Module, layers: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the domains, without those that combine others, of every layer in depth order.

    Layers are the linear ones and convolutions.
    """
    matrices = layer_weights(model)
    named = dict(model.named_modules())
    order = {name: index for index, name in enumerate(named)}
    names = {*matrices, *(n for n, module in named.items() if isinstance(module, nn.Conv2d))}
    found: dict[str, list[str]] = {}
    before = True  # the first block, and all layers between stages
    for name in sorted(names, key=lambda n: order.get(n, order.get(n[: -len(IN_PROJECTION)], 0))):
        if name in layers:
            found[name] = [layers[name], *(["qkv"] if _ends(name, QKV_ENDS) else [])]
        elif _ends(name, POOL_ENDS):
            keeps = name in matrices and len(set(matrices[name].shape)) == 1
            found[name] = ["keep" if keeps else "widen"]
        elif _ends(name, CLASSIFIER_ENDS):
            found[name] = ["head"]
        else:
            found[name] = ["other" if name in matrices or not before else "stem"]
        before = before and found[name] in (["stem"], ["other"])
    return found


def domains_by_layer(model: nn.Module, layers: Mapping[str, str]) -> dict[str, list[str]]:
    """Return all domains of every linear layer and convolution, in depth order."""
    return {
        name: [d for d in DOMAINS if not set(single_domains_of(d)).isdisjoint(basic)]
        for name, basic in single_domains_by_layer(model, layers).items()
    }


def block_domains_by_layer(layers: Mapping[str, str]) -> dict[str, list[str]]:
    """Return both domains of every layer of blocks."""
    return {name: [domain, "all"] for name, domain in layers.items()}


def block_layers(layers: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the layers of each block, the smallest module with layers of all domains, by name."""
    enclosing = {}  # the modules around each layer, the smallest first and the whole model last
    domains: dict[str, set[str]] = {}
    for name, domain in layers.items():
        parts = name.split(".")
        enclosing[name] = [".".join(parts[:end]) for end in reversed(range(len(parts)))]
        for module in enclosing[name]:
            domains.setdefault(module, set()).add(domain)
    found: dict[str, list[str]] = {}
    for name in layers:
        block = next(module for module in enclosing[name] if domains[module] == domains[""])
        found.setdefault(block, []).append(name)
    return found


def block_widths(model: nn.Module, layers: dict[str, str]) -> list[int]:
    """Return the dimension of each block: the input width of its first layer."""
    matrices = layer_weights(model)
    transposed = {name for name, module in model.named_modules() if is_conv1d(module)}
    firsts = [names[0] for names in block_layers(layers).values()]
    return [matrices[name].shape[0 if name in transposed else 1] for name in firsts]


def block_heads(model: nn.Module, layers: dict[str, str]) -> list[int]:
    """Return the number of attention heads of each block."""
    return [_count_heads(model.get_submodule(block)) for block in block_layers(layers)]


def _count_heads(block: nn.Module) -> int:
    for module in block.modules():
        for owner in (module, getattr(module, "config", None)):
            for name in HEAD_COUNTS:
                if isinstance(heads := getattr(owner, name, None), int):
                    return heads
    raise ValueError(f"a block must say how many heads it has, as one of {', '.join(HEAD_COUNTS)}")


def block_tokens(model: nn.Module, layers: dict[str, str], inputs: Tensor) -> list[int]:
    """Return the number of tokens that each block puts out for one of the inputs."""
    counts: list[int] = []

    def count(module: nn.Module, args: object, output: Tensor | tuple[Tensor, ...]) -> None:
        first = output[0] if isinstance(output, tuple) else output
        counts.append(first.numel() // first.shape[-1])

    with ExitStack() as hooks, torch.no_grad():
        for block in block_layers(layers):
            hooks.enter_context(model.get_submodule(block).register_forward_hook(count))
        ModelAdapter(model)(inputs[:1])
    return counts
