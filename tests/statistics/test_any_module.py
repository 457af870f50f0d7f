"""Any module with named linear layers is measured like a network of a space."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import MeasurementError
from autoprox.inputs.batch import Batch
from autoprox.language import STATISTICS
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import BlockShape, ModuleNetwork
from autoprox.zoo.proxy_loading import resolve_proxy

BLOCKS, WIDTH, CLASSES = 2, 12, 3
LAYERS = {
    "msa": [f"encoder.layers.{i}.self_attn.out_proj" for i in range(BLOCKS)],
    "mlp": [f"encoder.layers.{i}.linear{j}" for i in range(BLOCKS) for j in (1, 2)],
}


class Classifier(nn.Module):
    """PyTorch's encoder with dropout, a batch norm and a head."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 20, dropout=0.3, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=False)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.encoder(inputs).mean(1)))
        return logits


@pytest.fixture
def module() -> Classifier:
    torch.manual_seed(3)
    found = Classifier()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return found


def batch() -> Batch:
    generator = torch.Generator().manual_seed(5)
    return Batch(torch.randn(4, 7, WIDTH, generator=generator), torch.arange(4) % 3, CLASSES, "")


def network(module: nn.Module) -> ModuleNetwork:
    return ModuleNetwork(module, LAYERS, [BlockShape(WIDTH, 7, 2)] * BLOCKS)


def layers(module: nn.Module, domain: str) -> Iterator[nn.Linear]:
    return (module.get_submodule(name) for name in LAYERS[domain])  # type: ignore[return-value]


def scores(module: nn.Module, *proxies: str) -> list[float]:
    source = UncachedMatrices(MeasurementSetting({"noise": batch()}), [network(module)])
    values = TreeEvaluator(source).evaluate([resolve_proxy(proxy).tree for proxy in proxies]).values
    return [float(value) for value in values[:, 0, 0]]


def test_snip_and_the_norm_of_gradients_of_a_transformer_encoder(module: Classifier) -> None:
    found = scores(module, "snip", "sum(square(frobenius_norm(all.grad)))", "sum(width)")
    module.eval()
    given = batch()
    functional.cross_entropy(module(given.inputs), given.labels).backward()
    every = [layer for domain in LAYERS for layer in layers(module, domain)]
    snip = sum((layer.weight * layer.weight.grad).abs().sum().item() for layer in every)
    norm = sum(layer.weight.grad.square().sum().item() for layer in every)
    assert found == pytest.approx([snip, norm, BLOCKS * WIDTH], rel=1e-5)


def test_the_parts_of_dss_of_a_transformer_encoder(module: Classifier) -> None:
    msa = "sum(mul(nuclear_norm(ones.msa.grad), nuclear_norm(ones.msa.weight)))"
    mlp = "sum(sum(abs(mul(ones.mlp.grad, ones.mlp.weight))))"
    found = scores(module, msa, mlp)
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.abs_()
    module(torch.ones(1, 7, WIDTH)).sum().backward()
    norms = [
        torch.linalg.matrix_norm(matrix.double(), "nuc").item()
        for layer in layers(module, "msa")
        for matrix in (layer.weight, layer.weight.grad)
    ]
    mlps = layers(module, "mlp")
    saliency = sum((own.weight * own.weight.grad).abs().sum().item() for own in mlps)
    expected = [sum(a * b for a, b in zip(norms[::2], norms[1::2], strict=True)), saliency]
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_module_is_left_as_it_was_found(module: Classifier) -> None:
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.head.eval()
    modes = [part.training for part in module.modules()]
    scores(module, "snip", "sum(sum(mlp.act))")
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert [part.training for part in module.modules()] == modes
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not any(part._forward_hooks for part in module.modules())


def test_modules_of_other_values_have_other_keys(module: Classifier) -> None:
    setting, grad = MeasurementSetting({"noise": batch()}), STATISTICS["msa.grad"]
    key = setting.key(network(module), "noise", grad)
    assert setting.key(network(module), "noise", grad) == key
    with torch.no_grad():
        module.head.bias[0] += 1
    assert setting.key(network(module), "noise", grad) != key


def test_a_layer_that_is_not_there_is_an_error(module: Classifier) -> None:
    with pytest.raises(MeasurementError, match=r"got 'encoder.fc'; choose from encoder.layers.0"):
        ModuleNetwork(module, {"mlp": ["encoder.fc"]})
