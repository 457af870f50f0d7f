"""Which layers of a model are of its attention, and which of its MLPs: by their names.

Exported proxies contain the functions of this file: they import nothing but torch.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn

from autoprox.language.domains import DOMAINS, parts_of

IN_PROJECTION = ".in_proj"  # stands for the parameter that makes queries, keys and values in torch
HEADS = ("heads", "num_heads", "num_attention_heads", "n_heads", "n_head")
Patterns = Mapping[str, Iterable[str]]  # of names, or ends of names, by domain

FAMILIES: Mapping[str, Patterns] = {
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
# The ends of names of what makes queries, keys and values, of the layers between stages, and of the
# classifier; the convolutions before the first block are the stem.
QKV = (
    *("qkv", "q", "scales.*.kv", "mixer.qkv", "mixer.input", "attn.c_attn", "in_proj"),
    *("attention.self.*", "attention.attention.*", "attention.[qkv]_*", "self_attn.[qkv]_proj"),
)
POOL = ("pool.*", "downsample.*", "embedding.convolution", "blocks.*.fc", "blocks.*.conv")
HEAD = ("head", "head.fc", "classifier")


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The weight of every linear layer by the layer's name, in depth order."""
    found: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
            found[name + IN_PROJECTION] = module.in_proj_weight
        elif isinstance(module, nn.Linear) or is_transposed(module):
            found[name] = module.weight
    return found


def is_transposed(module: nn.Module) -> bool:
    """Whether it is the linear layer of transformers' GPT-2, whose weight is [in, out]."""
    return type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None


def find_layers(model: nn.Module, patterns: Patterns | None = None) -> dict[str, str]:
    """The domain of each layer that is measured, by name, in depth order.

    A name counts for the first domain of which it matches a pattern, as a whole or with its end.
    Without patterns they are those of the family, all domains of which it has, that finds most.
    """
    names = list(weights(model))
    if patterns is not None:
        return _assigned(names, patterns)
    return _assigned(names, FAMILIES.get(find_family(model), {}))


def find_family(model: nn.Module) -> str:
    """The family to which the model's layers belong, or nothing."""
    best, most = "", 0
    names = list(weights(model))
    for family, patterns in FAMILIES.items():
        found = _assigned(names, patterns)
        if set(found.values()) == set(patterns) and len(found) > most:
            best, most = family, len(found)
    return best


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names of layers that match a pattern, as a whole or with their ends."""
    return [name for name in names if _ends(name, (pattern,))]


def _assigned(names: Iterable[str], patterns: Patterns) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        for domain, ends in patterns.items():
            if _ends(name, ends):
                found.setdefault(name, domain)
    return found


def _ends(name: str, ends: Iterable[str]) -> bool:
    return any(fnmatchcase(f".{name}", f"*.{end}") for end in ends)


def single_domains(model: nn.Module, layers: Mapping[str, str]) -> dict[str, list[str]]:
    """The single domains of every linear layer and convolution, in depth order."""
    matrices = weights(model)
    named = dict(model.named_modules())
    places = {name: place for place, name in enumerate(named)}
    names = {*matrices, *(n for n, module in named.items() if isinstance(module, nn.Conv2d))}
    found: dict[str, list[str]] = {}
    before = True  # the first block, and all layers between stages
    for name in sorted(names, key=lambda n: places.get(n, places.get(n[: -len(IN_PROJECTION)], 0))):
        if name in layers:
            found[name] = [layers[name], *(["qkv"] if _ends(name, QKV) else [])]
        elif _ends(name, POOL):
            keeps = name in matrices and len(set(matrices[name].shape)) == 1
            found[name] = ["keep" if keeps else "widen"]
        elif _ends(name, HEAD):
            found[name] = ["head"]
        else:
            found[name] = ["other" if name in matrices or not before else "stem"]
        before = before and found[name] in (["stem"], ["other"])
    return found


def every_domain(model: nn.Module, layers: Mapping[str, str]) -> dict[str, list[str]]:
    """All domains of every linear layer and convolution, in depth order."""
    return {
        name: [d for d in DOMAINS if not set(parts_of(d)).isdisjoint(singles)]
        for name, singles in single_domains(model, layers).items()
    }


def block_domains(layers: Mapping[str, str]) -> dict[str, list[str]]:
    """Both domains of every layer of blocks."""
    return {name: [domain, "all"] for name, domain in layers.items()}


def blocks(layers: Mapping[str, str]) -> dict[str, list[str]]:
    """The layers of each block, the smallest module with layers of all domains; by its name."""
    domains: dict[str, set[str]] = {}
    for name, domain in layers.items():
        for module in _around(name):
            domains.setdefault(module, set()).add(domain)
    found: dict[str, list[str]] = {}
    for name in layers:
        block = next(m for m in _around(name) if domains[m] == domains[""])
        found.setdefault(block, []).append(name)
    return found


def _around(name: str) -> list[str]:
    """The modules around a layer, the smallest first and the whole model last."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in reversed(range(len(parts)))]


def heads_of(block: nn.Module) -> int:
    """The number of a block's attention heads, as its modules or their configuration say."""
    for module in block.modules():
        for place in (module, getattr(module, "config", None)):
            for name in HEADS:
                if isinstance(heads := getattr(place, name, None), int):
                    return heads
    raise ValueError(f"a block must say how many heads it has, as one of {', '.join(HEADS)}")
