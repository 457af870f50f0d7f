"""BERT of the library transformers, with our weights."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from autoprox.searchspaces.t_razor_bert import BERT_VOCABULARY

NAMES = {
    r"^(bert|electra)\.": "",
    "embeddings.word_embeddings.weight": "embedding.weight",
    "embeddings.position_embeddings.weight": "position",
    "embeddings.token_type_embeddings.weight": "token_type",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "blocks",
    "attention.self": "qkv",
    "attention.output.dense": "proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "norm2",
    "cls.predictions.transform.dense": "prediction.transform",
    "cls.predictions.transform.LayerNorm": "prediction.norm",
    "cls.predictions.bias": "prediction.bias",
}


def randomised(network: nn.Module) -> nn.Module:
    """Every parameter random, so that no two can be confused; without dropout."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return network.eval()


def translated(theirs: nn.Module, names: Mapping[str, str]) -> dict[str, Tensor]:
    """The parameters of a BERT of transformers under our names: queries, keys, values as one."""
    state: dict[str, Tensor] = {}
    for name, value in theirs.named_parameters():
        for pattern, ours in names.items():
            name = re.sub(pattern, ours, name)
        state[name] = value.detach()
    for name in [name for name in state if ".query." in name]:
        parts = [state.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        state[name.replace(".query", "")] = torch.cat(parts)
    return state


def tokens(batch: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, BERT_VOCABULARY, (batch, length), generator=generator)
