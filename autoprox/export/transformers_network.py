"""An architecture as a model of the library transformers: a configuration, or a model of its own.

Uniform networks of `bert` and `gpt2` are transformers' own. Any other is a folder that
`AutoModel.from_pretrained(..., trust_remote_code=True)` loads, with initialised weights.
"""

from collections.abc import Mapping
from typing import Any

from safetensors.torch import save

from autoprox.export.torch_network import torch_source
from autoprox.files.atomic_writes import to_json
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.bert import EPS, TOKEN_TYPES, BertSpace
from autoprox.searchspaces.gpt2 import GPT2NanoSpace, GPT2Space
from autoprox.searchspaces.language_models import TokenSpace

MODELING = "modeling_network"
FUNCTIONAL = "from torch.nn import functional"
ANY = "from typing import Any"
WRAPPER = '''

class NetworkConfig(PretrainedConfig):
    """The configuration, which has nothing to choose but the seed of new weights."""

    model_type = "{model_type}"

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.seed = seed
        super().__init__(**options)


class NetworkModel(PreTrainedModel):
    """The network as a model of transformers."""

    config_class = NetworkConfig
    base_model_prefix = "network"
    main_input_name = "{inputs}"

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.network = build(config.seed)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: `build` has done it."""

    def forward(self, {inputs}: Tensor, labels: Tensor | None = None, **_: Any) -> {output}:
        """Logits, and where labels are given the loss; -100 stands for what isn't predicted."""
        logits = self.network({inputs})
        loss = None
        if labels is not None:
            {loss}
        return {output}(loss=loss, logits=logits)
'''
LOSSES = {
    "images": "loss = functional.cross_entropy(logits, labels)",
    "masked": "loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())",
    "causal": (
        "before, after = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()\n"
        "            loss = functional.cross_entropy(before, after)"
    ),
}
OUTPUTS = {
    "images": "ImageClassifierOutput",
    "masked": "MaskedLMOutput",
    "causal": "CausalLMOutput",
}
CLASSES = {
    "images": "AutoModelForImageClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
BUILD = '''"""The model in this folder. Written by autoprox."""

from pathlib import Path

import torch
from transformers import AutoConfig, {auto}


def build(seed: int = 0) -> torch.nn.Module:
    """The network, its weights drawn by its published rule."""
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(Path(__file__).parent{trust})
{more}    return {auto}.from_config(config{trust})
'''


def transformers_files(
    space: SearchSpace, architecture: Architecture, classes: int
) -> dict[str, str | bytes]:
    """The files of a model folder, with a `network.py` that builds the model."""
    config = _uniform(space, architecture)
    auto = CLASSES[_kind(space)]
    if config is not None:
        build = BUILD.format(auto=auto, trust="", more="")
        return {"config.json": _json(config), "network.py": build}
    network = space.build(architecture, classes)
    weights = {f"network.{name}": value for name, value in network.state_dict().items()}
    build = BUILD.format(
        auto="AutoModel", trust=", trust_remote_code=True", more="    config.seed = seed\n"
    )
    return {
        "config.json": _json(_custom(space, architecture, auto)),
        f"{MODELING}.py": _modeling(space, architecture, classes),
        "model.safetensors": save(weights, {"format": "pt"}),
        "network.py": build,
    }


def _kind(space: SearchSpace) -> str:
    return space.objective if isinstance(space, TokenSpace) else "images"


def _json(config: Mapping[str, Any]) -> str:
    return f"{to_json(config, indent=2)}\n"


def _uniform(space: SearchSpace, architecture: Architecture) -> dict[str, Any] | None:
    """The configuration of transformers' own model, where it has the network."""
    blocks = set(space.blocks(architecture))
    if len(blocks) > 1 or isinstance(space, GPT2NanoSpace):  # which begins otherwise
        return None
    [block] = blocks
    if isinstance(space, BertSpace):
        return {
            "architectures": ["BertForMaskedLM"],
            "model_type": "bert",
            "vocab_size": space.vocabulary,
            "max_position_embeddings": space.context,
            "type_vocab_size": TOKEN_TYPES,
            "hidden_size": block.width,
            "num_hidden_layers": architecture["depth"],
            "num_attention_heads": block.heads,
            "intermediate_size": block.hidden,
            "layer_norm_eps": EPS,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    if isinstance(space, GPT2Space) and block.width == architecture["d_embed"]:
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": space.vocabulary,
            "n_positions": space.context,
            "n_embd": block.width,
            "n_layer": architecture["n_layer"],
            "n_head": block.heads,
            "n_inner": block.hidden,
            "attn_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "resid_pdrop": 0.0,
        }
    return None


def _custom(space: SearchSpace, architecture: Architecture, auto: str) -> dict[str, Any]:
    model = f"{MODELING}.NetworkModel"
    return {
        "architectures": ["NetworkModel"],
        "model_type": f"autoprox-{space.name}",
        "auto_map": {"AutoConfig": f"{MODELING}.NetworkConfig", "AutoModel": model, auto: model},
        "architecture": architecture.to_json(),
    }


def _modeling(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """The network's source, and a model of transformers around it."""
    kind = _kind(space)
    source = torch_source(space, architecture, classes)
    imports = (
        "from transformers import PretrainedConfig, PreTrainedModel\n"
        f"from transformers.modeling_outputs import {OUTPUTS[kind]}\n"
    )
    marker = "import torch\n"
    head, _, rest = source.partition(marker)
    lines, _, definitions = rest.partition("\n\n")
    named = list(dict.fromkeys([marker.strip(), *lines.splitlines(), FUNCTIONAL]))
    if ANY not in head:
        head = f"{head.rstrip()}\n{ANY}\n\n"
    wrapper = WRAPPER.format(
        model_type=f"autoprox-{space.name}",
        inputs="pixel_values" if kind == "images" else "input_ids",
        output=OUTPUTS[kind],
        loss=LOSSES[kind],
    )
    return head + "\n".join(named) + "\n" + imports + "\n" + definitions + wrapper
