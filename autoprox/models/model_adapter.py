"""Calls any model as those of the search spaces are called.

Exported proxies contain the definitions of this file: it imports nothing but torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn


class ModelAdapter(nn.Module):
    """A model as a function from images, or from tokens, to logits.

    Embeddings may be given in place of tokens: they replace the output of the model's first
    embedding.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        embeddings = (module for module in model.modules() if isinstance(module, nn.Embedding))
        self._embedding = [next(embeddings, None)]  # listed, so as not to be a submodule again
        self._sees_tokens = False

    def ones(self, inputs: Tensor) -> Tensor:
        """Return one input that is all ones: an image, or the embeddings of a sequence."""
        embedding = self._embedding[0]
        self._sees_tokens = not inputs.is_floating_point()
        if not self._sees_tokens or embedding is None:
            return torch.ones_like(inputs[:1])
        return torch.ones(1, inputs.shape[1], embedding.embedding_dim, device=inputs.device)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs to logits [..., classes]."""
        with evaluation_mode(self.model):
            if not (self._sees_tokens and inputs.is_floating_point()):
                return output_logits(self.model(inputs))
            embedding = self._embedding[0]
            if embedding is None:
                raise ValueError("a model that is given embeddings must have an nn.Embedding")
            with embedding.register_forward_hook(lambda module, args, output: inputs):
                tokens = torch.zeros(inputs.shape[:2], dtype=torch.long, device=inputs.device)
                return output_logits(self.model(tokens))


def output_logits(outputs: Any) -> Tensor:
    """Return a model's output if it is a tensor, or its `logits`, or its first element."""
    if isinstance(outputs, Tensor):
        return outputs
    logits = getattr(outputs, "logits", None)
    first: Tensor = outputs[0] if logits is None else logits
    return first


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Disable dropout, and fused paths, which hooks don't see."""
    modes = {part: part.training for part in model.modules()}
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    model.eval()
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for part, training in modes.items():
            part.training = training


def is_conv1d(module: nn.Module) -> bool:
    """Return whether it is the linear layer of transformers' GPT-2, whose weight is [in, out]."""
    return type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None


def conv1d_to_linear(model: nn.Module) -> nn.Module:
    """Return the model, or if it has transposed layers a copy with linear layers in their place."""
    if not any(map(is_conv1d, model.modules())):
        return model
    copied = deepcopy(model)
    for name, module in list(copied.named_modules()):
        if is_conv1d(module):
            matrix: Tensor = module.weight.T
            layer = nn.Linear(matrix.shape[1], matrix.shape[0], device="meta")
            layer.weight = nn.Parameter(matrix.detach().contiguous())
            layer.bias = module.bias
            parent, _, attribute = name.rpartition(".")
            setattr(copied.get_submodule(parent), attribute, layer)
    return copied
