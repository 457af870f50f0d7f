"""An architecture as a model of the library transformers: a configuration, or a model of its own.

Uniform networks of `bert` and `gpt2` are transformers' own. Any other is a folder that
`AutoModel.from_pretrained(..., trust_remote_code=True)` loads, with initialised weights.
"""

from typing import Any, NamedTuple

from safetensors.torch import save

from autoprox.export.torch_network import torch_network_source
from autoprox.files.atomic_writes import to_json
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.gpt2 import GPT2NanoSpace, GPT2Space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.t_razor_bert import EPS, TOKEN_TYPES, BertSpace

MODELING = "modeling_network"
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
        """Do nothing: `build` has initialised the network."""

    def forward(self, {inputs}: Tensor, labels: Tensor | None = None, **_: Any) -> {output}:
        """Logits, and the loss if there are labels; -100 is a token that isn't predicted."""
        logits = self.network({inputs})
        loss = None
        if labels is not None:
            {loss}
        return {output}(loss=loss, logits=logits)
'''


class TransformersTask(NamedTuple):
    """A task of a space's networks, as transformers names it, and its loss."""

    auto: str
    output: str
    loss: str


TRANSFORMERS_TASKS = {
    "images": TransformersTask(
        "AutoModelForImageClassification",
        "ImageClassifierOutput",
        "loss = functional.cross_entropy(logits, labels)",
    ),
    "masked": TransformersTask(
        "AutoModelForMaskedLM",
        "MaskedLMOutput",
        "loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())",
    ),
    "causal": TransformersTask(
        "AutoModelForCausalLM",
        "CausalLMOutput",
        "before, after = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()\n"
        "            loss = functional.cross_entropy(before, after)",
    ),
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
    task = TRANSFORMERS_TASKS[space.objective if isinstance(space, TokenSpace) else "images"]
    if (config := _uniform(space, architecture)) is not None:
        build = BUILD.format(auto=task.auto, trust="", more="")
        return {"config.json": f"{to_json(config, indent=2)}\n", "network.py": build}
    network = space.build(architecture, classes)
    weights = {f"network.{name}": value for name, value in network.state_dict().items()}
    model = f"{MODELING}.NetworkModel"
    config = {
        "architectures": ["NetworkModel"],
        "model_type": f"autoprox-{space.name}",
        "auto_map": {
            "AutoConfig": f"{MODELING}.NetworkConfig",
            "AutoModel": model,
            task.auto: model,
        },
        "architecture": architecture.to_json(),
    }
    build = BUILD.format(
        auto="AutoModel", trust=", trust_remote_code=True", more="    config.seed = seed\n"
    )
    return {
        "config.json": f"{to_json(config, indent=2)}\n",
        f"{MODELING}.py": _modeling(
            space, torch_network_source(space, architecture, classes), task
        ),
        "model.safetensors": save(weights, {"format": "pt"}),
        "network.py": build,
    }


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


def _modeling(space: SearchSpace, source: str, task: TransformersTask) -> str:
    """The network's source, and a model of transformers around it."""
    head, _, rest = source.partition("import torch\n")
    lines, _, definitions = rest.partition("\n\n")
    functional = "from torch.nn import functional"
    named = "\n".join(dict.fromkeys(["import torch", *lines.splitlines(), functional]))
    if "from typing import Any" not in head:
        head = f"{head.rstrip()}\nfrom typing import Any\n\n"
    wrapper = WRAPPER.format(
        model_type=f"autoprox-{space.name}",
        inputs="input_ids" if isinstance(space, TokenSpace) else "pixel_values",
        output=task.output,
        loss=task.loss,
    )
    imports = (
        "from transformers import PretrainedConfig, PreTrainedModel\n"
        f"from transformers.modeling_outputs import {task.output}\n"
    )
    return f"{head}{named}\n{imports}\n{definitions}{wrapper}"
