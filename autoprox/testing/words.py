"""What must hold for the words of the language, and for the forms in which they are written."""

from contextlib import suppress
from random import Random

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.export import EXPORTERS, Exporter, ExportError, to_sympy
from autoprox.inputs.images import load_batch
from autoprox.language import STATISTICS, Tree, canonical, make_tree, parse
from autoprox.language.grammar import DEAP_TYPES, Grammar
from autoprox.language.quantities import QUANTITIES, Quantity
from autoprox.primitives import OPERATIONS, Level, Primitive, apply
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import collect
from autoprox.testing.require import require
from autoprox.zoo import EXPRESSIONS, load_expression

SOURCES: dict[Level, tuple[str, str]] = {
    "matrix": ("all.weight", "all.grad"),
    "layers": ("width", "heads"),
    "network": ("sum(width)", "sum(heads)"),
}


def check_operation(operation: Primitive) -> None:
    """It passes its proof, is a word of the language, is displayed, and never waits for a device.

    The proof calls it on values of every size, at its levels and both precisions.
    """
    name = operation.name
    with OPERATIONS.trial(name, operation):
        pset = Grammar().pset
        for level in operation.levels:
            tree = make_tree(name, *map(parse, SOURCES[level][: operation.arity]))
            _check_text(tree)
            types = [DEAP_TYPES[arg.type] for arg in tree.args]
            nodes = pset.primitives[DEAP_TYPES[tree.type]]
            words = {node.name for node in nodes if node.args == types}
            require((name in words) == operation.drawn, f"the grammar draws `{name}` if `drawn`")
            _check_device(operation, level)


def check_statistic(quantity: Quantity) -> None:
    """It is a word of the language, displayed and measured, for every probe and domain.

    Its matrices are finite, have the shapes that it says, and leave the network alone.
    """
    with QUANTITIES.trial(quantity.name, quantity):
        shared = [q.name for q in QUANTITIES.values() if q.symbol == quantity.symbol]
        require(len(shared) == 1, f"a quantity's letter is its own, not that of {shared}")
        own = [s for s in STATISTICS.values() if s.quantity == quantity.name]
        for statistic in own:
            _check_text(make_tree(str(statistic)))
        words = {*map(str, own)}.intersection(Grammar(own).terminals)
        require(words, f"`{quantity.name}` is a word of the grammar")
        _check_matrices(quantity)


def check_exporter(exporter: Exporter, trees: int = 50) -> None:
    """It says what it is, and writes published and random proxies, each always the same way."""
    require(exporter.__doc__, "a form says what it is in its docstring")
    rng, grammar = Random(0), Grammar()
    examples = [*map(load_expression, EXPRESSIONS), *(grammar.generate(rng) for _ in range(trees))]
    for tree in examples:
        text = exporter(tree)
        require(isinstance(text, str) and text.strip(), f"a form is a text, but not of {tree}")
        require(exporter(tree) == text, f"a form is always the same, but not of {tree}")


def _check_text(tree: Tree) -> None:
    require(parse(str(tree)) == tree, f"`{tree}` is read as it is written")
    form = canonical(tree)
    require(canonical(form) == form, f"the canonical form of `{tree}` is its own canonical form")
    for name, exporter in EXPORTERS.items():
        with suppress(ExportError):  # a form may be one of complete proxies alone
            require(exporter(tree).strip(), f"`{tree}` is displayed in the form {name}")
    require(to_sympy(tree) is not None, f"`{tree}` has a sympy form")


def _check_device(operation: Primitive, level: Level) -> None:
    # Fake tensors raise where a value is read on the host.
    with FakeTensorMode():
        value = torch.empty((2, 3, 5, 9) if level == "matrix" else (2, 3, 9), device="cuda")
        try:
            result = apply(operation, [value] * operation.arity, level)
        except DataDependentOutputException as error:
            raise AssertionError(f"`{operation.name}` never waits for the device") from error
        require(
            result.device.type == "cuda", f"`{operation.name}` stays on the device of its arguments"
        )


def _check_matrices(quantity: Quantity) -> None:
    name, space = quantity.name, get_space("autoformer-nano")
    network = space.build(space.sample(Random(0)), classes=4, seed=1)
    batch = load_batch("noise", space.input_shape, 2, 0, classes=4)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    model = QUANTITIES["weight" if quantity.like == "weight" else "act"]
    own = [s for s in STATISTICS.values() if s.quantity == name and s.domain != "all"]
    like = [s for s in STATISTICS.values() if s.quantity == model.name and s.domain != "all"]
    found, again, models = (collect(network, batch, needs) for needs in (own, own, like))
    for statistic, other in zip(own, like, strict=True):
        shapes = [matrix.shape for matrix in models[other]]
        got = [matrix.shape for matrix in found[statistic]]
        require(got == shapes, f"{statistic} has the shapes of {other}, {shapes}, but got {got}")
        for one, two in zip(found[statistic], again[statistic], strict=True):
            require(one.isfinite().all(), f"{statistic} is finite")
            require(torch.equal(one, two), f"{statistic} is always the same")
    same = all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    require(same, f"{name} leaves the network as it found it")
