"""A proxy as a Python file gives what the engine gives."""

import operator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.sources import loaded, run_alone
from torch import nn

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.export import EXPORTERS, ExportError
from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_batches
from autoprox.language import NETWORK, make_tree, parse_expression
from autoprox.language.quantities import QUANTITIES, Quantity
from autoprox.primitives import OPERATIONS, PRIMITIVES
from autoprox.searchspaces import SPACES, TransformerNetwork
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import BlockShape, ModuleNetwork
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names

CHOICES = [
    (
        "autoformer-nano",
        {"hidden_dim": 16, "depth": 2, "mlp_ratio": [1.0, 4.0], "num_heads": [2, 3]},
    ),
    ("autoformer-nano", {"hidden_dim": 24, "depth": 1, "mlp_ratio": [2.0], "num_heads": [1]}),
    ("pit", {"base_dim": 16, "mlp_ratio": 2, "depth": [1, 4, 2], "num_heads": [2, 2, 4]}),
    (
        "gpt2-nano",
        {"n_layer": 2, "d_embed": 32, "d_model": [32, 48], "d_inner": [96, 128], "n_head": [2, 4]},
    ),
    (
        "gpt2-nano",
        {"n_layer": 1, "d_embed": 64, "d_model": [32], "d_inner": [96], "n_head": [1]},
    ),
]
OTHERS = [
    "sum(softmax(l1_norm(mul(ones.mlp.act, mlp.act_grad))))",
    "add(rank(sum(mul(width, heads))), div(sum(log(tokens)), sum(effective_rank(all.weight))))",
    "sum(min_max(std(inverse(sqrt(relu(tanh(sigmoid(mlp.weight))))))))",
    "rank(sum(log_softmax(mean(exp(all.grad)))))",
    "mul(pow(sum(std(msa.weight)), -0.52), mul(pow(sum(heads), 1.3), pow(max(std(mlp.grad)), 2)))",
]
PLAIN = [name for name, p in OPERATIONS.items() if p.plain]


def networks_of(space: str) -> tuple[list[TransformerNetwork], Batch]:
    found = SPACES[space]
    [batch] = load_batches(found, {"few": 4}, batch_size=3, seed=1).values()
    architectures = [found.architecture(choices) for own, choices in CHOICES if own == space]
    return [found.build(a, batch.classes, seed=7) for a in architectures], batch


def as_module(network: TransformerNetwork, space: str, choices: dict[str, object]) -> ModuleNetwork:
    """The network with the layers and blocks that the space says it has."""
    names = {id(module): name for name, module in network.named_modules()}
    layers: dict[str, list[str]] = {"msa": [], "mlp": []}
    for domain, layer in (*network.layers(), *network.extra_layers()):
        layers.setdefault(domain, []).append(names[id(layer)])
    blocks = SPACES[space].blocks(SPACES[space].architecture(choices))
    final = names[id(network.final_block)]
    shapes = [BlockShape(block.width, block.tokens, block.heads) for block in blocks]
    return ModuleNetwork(network, layers, shapes, final_block=final)


def written(text: str, folder: Path, form: str = "python") -> ModuleType:
    path = folder / "proxy.py"
    path.write_text(EXPORTERS[form](parse_with_zoo_names(text)))
    return loaded(path)


@pytest.mark.parametrize("name", [*EXPRESSION_PROXIES, *OTHERS])
def test_the_file_scores_as_the_engine(name: str, tmp_path: Path) -> None:
    tree, module = parse_with_zoo_names(name), written(name, tmp_path)
    for space in dict.fromkeys(space for space, _ in CHOICES):
        built, batch = networks_of(space)
        own = [choices for other, choices in CHOICES if other == space]
        networks = [as_module(n, space, c) for n, c in zip(built, own, strict=True)]
        source = UncachedMatrices(MeasurementSetting({"few": batch}), networks)
        expected = TreeEvaluator(source).evaluate([tree]).values[0, 0].tolist()
        if tree.compares_networks:
            found = module.score(built, batch.inputs, batch.labels)
        else:
            found = [module.score(network, batch.inputs, batch.labels) for network in built]
        assert found == pytest.approx(expected, rel=1e-6), space


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_operation_can_be_written(name: str, tmp_path: Path) -> None:
    leaves = {
        "matrix": ("msa.weight", "msa.grad"),
        "layers": ("std(msa.weight)", "l1_norm(msa.grad)"),
    }
    [network, _], batch = networks_of("autoformer-nano")
    source = UncachedMatrices(MeasurementSetting({"few": batch}), [as_module(network, *CHOICES[0])])
    for level in set(leaves) & set(PRIMITIVES[name].levels):
        args = leaves[level][: PRIMITIVES[name].arity]
        tree = parse_expression(f"{name}({', '.join(args)})")
        while tree.type != NETWORK:
            tree = make_tree("sum", tree)
        expected = TreeEvaluator(source).evaluate([tree]).values[0, 0, 0]
        found = written(str(tree), tmp_path).score(network, batch.inputs, batch.labels)
        assert found == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_the_plain_form_of_an_operation_is_the_operation(name: str) -> None:
    own = OPERATIONS[name]
    dims = ((-1,),) if own.along_axis else ()
    x = torch.tensor([-40.0, -2.0, -1e-13, 0.0, 1e-13, 0.5, 3.0, 50.0], dtype=torch.float64)
    args = (x, x.flip(0))[: own.arity]
    assert own.plain is not None
    torch.testing.assert_close(own.plain(*args, *dims), own.function(*args, *dims))


@pytest.mark.parametrize("name", [name for name, p in OPERATIONS.items() if p.operator])
def test_the_operator_of_an_operation_is_the_operation(name: str) -> None:
    function = {"+": operator.add, "-": operator.sub, "*": operator.mul}[OPERATIONS[name].operator]
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    assert torch.equal(function(x, x.flip(0)), OPERATIONS[name].function(x, x.flip(0)))


def test_the_file_needs_torch_alone_and_leaves_the_model(tmp_path: Path) -> None:
    (tmp_path / "proxy.py").write_text(EXPORTERS["torch"](parse_expression(SNIP)))
    printed = run_alone(tmp_path, USE)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    assert layer.self_attn.in_proj_weight.shape == (24, 8)
    found, plain_snip, unchanged = printed.split()
    assert float(found) == pytest.approx(float(plain_snip), rel=1e-5)
    assert unchanged == "True"


SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"
USE = """
import torch
from torch import nn
from proxy import score

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
model = nn.Sequential(encoder, nn.Flatten(), nn.Linear(40, 3))
inputs, targets = torch.randn(4, 5, 8), torch.tensor([0, 1, 2, 0])
print(score(model, inputs, targets))
print_after = all(p.grad is None for p in model.parameters()) and model.training
nn.functional.cross_entropy(model.eval()(inputs), targets).backward()
matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and name[:2] != "2."]
print(sum((p * p.grad).abs().sum().item() for p in matrices))
print(print_after and "numpy" not in dir())
"""


def test_patterns_name_the_layers_of_any_model(tmp_path: Path) -> None:
    module = written("sum(sum(mlp.weight))", tmp_path)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    inputs, targets = torch.randn(2, 3), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="must have layers of a known family, or named by"):
        module.score(model, inputs, targets)
    found = module.score(model, inputs, targets, patterns={"mlp": ["2"]})
    assert found == pytest.approx(model[2].weight.sum().item(), rel=1e-6)


def test_a_quantity_of_a_plug_in_cannot_be_written() -> None:
    quantity = Quantity("twice", "weight", ("weight",), lambda w: 2 * w)
    with QUANTITIES.trial("twice", quantity):
        tree = parse_expression("sum(sum(msa.twice))")
        with pytest.raises(ExportError, match="reads weight, grad, act, act_grad, but this one tw"):
            EXPORTERS["python"](tree)
