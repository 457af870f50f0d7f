"""The functions of the zoo, derived again in plain lines."""

import copy
import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import entropy
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


def lpzero_released(plain: Plain) -> float:
    scores = []
    for linear, g in zip(plain.linears, plain.of_loss(), strict=True):
        shares = np.exp(g) / np.exp(g).sum(axis=0, keepdims=True)
        scores.append((linear.weight.detach().numpy() ** 2).mean() + (shares**2).mean())
    return sum(scores) / len(scores)


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


def block_ends(plain: Plain) -> list[tuple[Tensor, Tensor]]:
    """The input and the output of each block, in one graph from the network's input."""
    found: list[tuple[Tensor, Tensor]] = []
    handles = [
        block.register_forward_hook(lambda *seen: found.append((seen[1][0], seen[2])))
        for block in plain.blocks
    ]
    plain.network(plain.inputs)
    for handle in handles:
        handle.remove()
    return found


def entropies(plain: Plain) -> list[float]:
    found = []
    for _, output in block_ends(plain):
        rows = output.detach().numpy().reshape(-1, output.shape[-1])
        variances = np.linalg.eigvalsh(np.cov(rows.T))
        found.append(float(entropy(variances[variances > 0])))
    return found


def expressivity(plain: Plain) -> float:
    return sum(entropies(plain))


def progressivity(plain: Plain) -> float:
    return float(np.diff(entropies(plain)).min())


def trainability(plain: Plain) -> float:
    """The signs are drawn as in the program; each block is run again on a leaf, token by token."""
    generator = torch.Generator().manual_seed(SEED)
    scores = []
    for block, (seen, _) in zip(plain.blocks, block_ends(plain), strict=True):
        leaf = seen.detach().clone().requires_grad_()
        output = block(leaf)
        signs = torch.randint(0, 2, output.shape, generator=generator).double() * 2 - 1
        output.backward(signs)
        sums = sum(np.outer(leaf.grad[n, t], signs[n, t]) for n, t in np.ndindex(*output.shape[:2]))
        norm = np.linalg.svd(sums / (output.shape[0] * output.shape[1]))[1].max()
        scores.append(2 - norm - 1 / (norm + 1e-6))
    return float(np.mean(scores))


def complexity(plain: Plain) -> float:
    """From the sizes: linear layers and convolutions by their outputs, attention by its tokens."""
    seen: list[tuple[nn.Module, Tensor]] = []
    kinds = nn.Linear | nn.Conv2d
    for module in plain.network.modules():
        if isinstance(module, kinds):
            module.register_forward_hook(lambda *call: seen.append((call[0], call[2])))
    logits = plain.network(plain.inputs[:1])
    macs = sum(layer.weight[0].numel() * output.numel() for layer, output in seen)
    if not any(layer is getattr(plain.network, "head", None) for layer, _ in seen):
        macs += logits.numel() * plain.network.embedding.embedding_dim
    tokens = block_ends(plain)[0][0].shape[1]
    return macs + sum(2 * tokens**2 * block.qkv.out_features // 3 for block in plain.blocks)


def patterns(plain: Plain) -> int:
    hidden = [output.reshape(plain.samples, -1) for output in plain.hidden()]
    return len({tuple(unit > 0) for output in hidden for unit in output.T})


def swap(plain: Plain) -> float:
    return patterns(plain)


def w_pca(plain: Plain) -> float:
    dimensions = 0
    for hidden in plain.hidden():
        rows = hidden.reshape(-1, hidden.shape[-1])
        lengths = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
        kept = range(len(lengths) + 1)
        dimensions += next(k for k in kept if lengths[:k].sum() >= 0.99 * lengths.sum())
    return dimensions * sum(p.numel() for p in plain.network.parameters())


def l_swag(plain: Plain) -> float:
    sizes = [np.abs(layer) for layer in plain.by_sample()]
    return patterns(plain) * sum(np.log((1 / size.std(0)).sum()) for size in sizes)


def cosine(x: Array, y: Array) -> float:
    return float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum()))


def croze(plain: Plain) -> float:
    other = copy.deepcopy(plain)
    weights, gradients = [w.weight.detach().numpy() for w in plain.linears], plain.of_loss()
    for linear, w, g in zip(other.linears, weights, gradients, strict=True):
        step = 2 * np.linalg.norm(w) / np.linalg.norm(g)
        linear.weight.data = torch.from_numpy(w + step * g)
    other.inputs.requires_grad_()
    other.of_loss()
    other.inputs = (other.inputs + 0.01 * other.inputs.grad.sign()).detach()
    terms = zip(
        *(plain.outputs(plain.linears), other.outputs(other.linears)),
        *(weights, [w.weight.detach().numpy() for w in other.linears]),
        *(gradients, other.of_loss()),
        strict=True,
    )
    return sum(
        (1 + cosine(a, b)) * (1 + cosine(c, d)) * abs(cosine(e, f)) for a, b, c, d, e, f in terms
    )


PLAIN: dict[str, Callable[[Plain], float]] = {
    "grasp": grasp,
    "gradsign": gradsign,
    "zico": zico,
    "prenas": prenas,
    "lpzero-released": lpzero_released,
    "te-nas": te_nas,
    "ntk-trace": ntk_trace,
    "mgm": mgm,
    "naswot": naswot,
    "activation_distance": activation_distance,
    "meco": meco,
    "head_confidence": head_confidence,
    "jacobian": jacobian,
    "ld": ld,
    "swap": swap,
    "w-pca": w_pca,
    "l-swag": l_swag,
    "croze": croze,
    "az-nas-expressivity": expressivity,
    "az-nas-progressivity": progressivity,
    "az-nas-trainability": trainability,
    "az-nas-complexity": complexity,
}
