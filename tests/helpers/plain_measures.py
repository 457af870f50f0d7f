"""The functions of the zoo, derived again in plain lines."""

import copy
import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces import TransformerNetwork
from helpers.networks import tiny

Array = NDArray[np.float64]


SEED = 3


ARCH = tiny(24, (2, 2.0), (1, 3.0), (2, 1.0))  # wider than the 17 tokens, or `meco` would be 0


EPSILON = 1e-4  # of finite differences, in float64


class Plain:
    """A copy of the network in float64, which nothing else reads.

    Its inputs are images or embeddings of tokens.
    """

    def __init__(self, network: TransformerNetwork, inputs: Tensor, labels: Tensor) -> None:
        self.network = copy.deepcopy(network).double()
        self.inputs = inputs.double()
        self.labels = labels
        self.samples = len(inputs)
        self.blocks = [module for module in self.network.blocks if hasattr(module, "qkv")]
        self.linears = [
            linear
            for block in self.blocks
            for linear in (block.qkv, block.proj, block.fc1, block.fc2)
        ]

    def gradients(self, loss: Callable[[Tensor], Tensor], inputs: Tensor) -> list[Array]:
        """Of a function of the logits, by the weights of each linear layer."""
        self.network.zero_grad()
        loss(self.network(inputs)).backward()
        return [linear.weight.grad.numpy().copy() for linear in self.linears]

    def of_loss(self, sample: int | slice = slice(None)) -> list[Array]:
        """Gradients of the mean cross-entropy of all samples, or of one."""
        chosen = slice(sample, sample + 1) if isinstance(sample, int) else sample
        labels = self.labels[chosen].flatten()

        def loss(logits: Tensor) -> Tensor:
            predictions = logits.reshape(len(labels), -1)[labels >= 0]
            return functional.cross_entropy(predictions, labels[labels >= 0])

        return self.gradients(loss, self.inputs[chosen])

    def by_sample(self) -> list[Array]:
        """[samples, out, in] for each layer: gradients of each sample's cross-entropy."""
        samples = [self.of_loss(sample) for sample in range(len(self.inputs))]
        return [np.stack(layer) for layer in zip(*samples, strict=True)]

    def kernel(self) -> Array:
        samples = [self.gradients(torch.sum, x[None]) for x in self.inputs]
        flat = [np.concatenate([g.ravel() for g in layers]) for layers in samples]
        return np.array([[a @ b for b in flat] for a in flat])

    def outputs(self, modules: list[nn.Module], inputs: Tensor | None = None) -> list[Array]:
        """What modules put out, [samples, tokens, features] each."""
        found: list[Array] = []
        handles = [
            module.register_forward_hook(lambda *seen: found.append(seen[2].detach().numpy()))
            for module in modules
        ]
        self.network(self.inputs if inputs is None else inputs)
        for handle in handles:
            handle.remove()
        return found

    def hidden(self) -> list[Array]:
        return self.outputs([block.fc1 for block in self.blocks])


def grasp(plain: Plain) -> float:
    """The Hessian's product with the gradient by central differences."""
    gradients = plain.of_loss()

    def moved(by: float) -> list[Array]:
        for linear, gradient in zip(plain.linears, gradients, strict=True):
            linear.weight.data += by * torch.from_numpy(gradient)
        return plain.of_loss()

    forward, back = moved(EPSILON), moved(-2 * EPSILON)
    moved(EPSILON)
    return -sum(
        (linear.weight.detach().numpy() * (f - b)).sum() / (2 * EPSILON)
        for linear, f, b in zip(plain.linears, forward, back, strict=True)
    )


def gradsign(plain: Plain) -> float:
    return sum(np.abs(np.sign(layer).sum(0)).sum() for layer in plain.by_sample())


def zico(plain: Plain) -> float:
    sizes = [np.abs(layer) for layer in plain.by_sample()]
    return sum(np.log((size.mean(0) / np.sqrt(size.var(0))).sum()) for size in sizes)


def prenas(plain: Plain) -> float:
    score = 0.0
    for linear, g in zip(plain.linears, plain.of_loss(), strict=True):
        w = linear.weight.detach().numpy()
        score += np.abs(w * g).sum() / (np.abs(w).sum() * np.abs(g).sum())
    return score


def te_nas(plain: Plain) -> float:
    eigenvalues = np.linalg.eigvalsh(plain.kernel())
    return -max(eigenvalues) / min(eigenvalues)


def ntk_trace(plain: Plain) -> float:
    return math.sqrt(np.trace(plain.kernel()) / plain.samples)


def mgm(plain: Plain) -> float:
    return plain.kernel().mean()


def naswot(plain: Plain) -> float:
    plain = copy.deepcopy(plain)
    generator = torch.Generator().manual_seed(SEED)
    for layer in plain.network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.weight.data = torch.randn(layer.weight.shape, generator=generator).double()
            if layer.bias is not None:
                layer.bias.data.zero_()
    hidden = plain.hidden()
    codes = [np.concatenate([h[n].ravel() > 0 for h in hidden]) for n in range(plain.samples)]
    agreeing = [[float((a == b).sum()) for b in codes] for a in codes]
    return math.log(abs(np.linalg.det(np.array(agreeing) / 100))) + len(codes) * math.log(100)


def activation_distance(plain: Plain) -> float:
    """Hamming distances of the codes of all pairs of tokens, one sample after another."""
    score = 0
    for hidden, sample in product(plain.hidden(), range(plain.samples)):
        codes = hidden[sample] > 0
        score += sum(len(a) - (a != b).sum() for a, b in product(codes, codes))
    return score / plain.samples


def meco(plain: Plain) -> float:
    maps = [output[0] for output in plain.outputs(plain.linears)]
    return sum(np.linalg.eigvalsh(np.corrcoef(rows)).min() for rows in maps)


def head_confidence(plain: Plain) -> float:
    """The published sum over layers of queries, keys and values, which are three linear layers."""
    score = 0.0
    for qkv in plain.outputs([block.qkv for block in plain.blocks]):
        for projection in np.split(qkv, 3, axis=-1):
            score += np.mean([[max(feature) for feature in sample.T] for sample in projection])
    return score


def jacobian(plain: Plain) -> float:
    rows = []
    for x in plain.inputs:
        leaf = x[None].clone().requires_grad_()
        plain.network(leaf).sum().backward()
        rows.append(leaf.grad.numpy().ravel())
    values = np.linalg.eigvals(np.corrcoef(rows)).real + 1e-5
    return -(np.log(values) + 1 / values).sum()


def ld(plain: Plain) -> float:
    """The plane is drawn as in the program; the sides of both polygons are added up one by one."""
    size = plain.inputs[0].numel()
    generator = torch.Generator().manual_seed(SEED)
    drawn = torch.randn(size, 2, generator=generator, dtype=torch.float64).numpy().T
    first = drawn[0] / np.linalg.norm(drawn[0])
    second = drawn[1] - (drawn[1] @ first) * first
    second /= np.linalg.norm(second)
    radius = math.sqrt((plain.inputs**2).sum() / plain.samples)
    angles = [corner * math.pi / 4 for corner in range(9)]
    points = [radius * (math.cos(a) * first + math.sin(a) * second) for a in angles]
    images = [torch.from_numpy(point).reshape(plain.inputs[:1].shape) for point in points]
    last = plain.blocks[-1:]
    ends = [plain.outputs(last, image)[0] for image in images]
    before, after = (
        sum(np.linalg.norm(b - a) for a, b in pairwise(curve)) for curve in (points, ends)
    )
    return after / before


PLAIN: dict[str, Callable[[Plain], float]] = {
    "grasp": grasp,
    "gradsign": gradsign,
    "zico": zico,
    "prenas": prenas,
    "te-nas": te_nas,
    "ntk-trace": ntk_trace,
    "mgm": mgm,
    "naswot": naswot,
    "activation_distance": activation_distance,
    "meco": meco,
    "head_confidence": head_confidence,
    "jacobian": jacobian,
    "ld": ld,
}
