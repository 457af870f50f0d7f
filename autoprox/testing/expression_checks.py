"""Suites for operations, statistics, exporters and proxies: all that expressions are made of."""

import math
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.export import EXPORTERS, Exporter, ExportError, to_sympy
from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_image_batch
from autoprox.language import (
    STATISTICS,
    Tree,
    canonical,
    make_tree,
    parse_expression,
    require_complete_proxy,
)
from autoprox.language.grammar import DEAP_TYPES, Grammar
from autoprox.language.quantities import QUANTITIES, Quantity
from autoprox.primitives import OPERATIONS, Primitive, ValueLevel, apply_primitive
from autoprox.searchspaces import TransformerNetwork, get_space
from autoprox.statistics.collector import collect_statistics
from autoprox.testing.rule_assertion import assert_rule
from autoprox.zoo import EXPRESSION_PROXIES, ExpressionProxy, parse_with_zoo_names
from autoprox.zoo.functions import FunctionProxy, SharedNetworkPasses
from autoprox.zoo.functions.shared_network_passes import SHARED_PASSES

OPERATION_ARGUMENTS: dict[ValueLevel, tuple[str, str]] = {
    "matrix": ("all.weight", "all.grad"),
    "layers": ("width", "heads"),
    "network": ("sum(width)", "sum(heads)"),
}


def check_operation(operation: Primitive) -> None:
    """Check that an operation is proved, in the grammar, displayed, and never waits for a device.

    The proof calls it on values of every size, at its levels and both precisions.
    """
    name = operation.name
    with OPERATIONS.trial(name, operation):
        pset = Grammar().pset
        for level in operation.levels:
            tree = make_tree(
                name, *map(parse_expression, OPERATION_ARGUMENTS[level][: operation.arity])
            )
            _check_text(tree)
            types = [DEAP_TYPES[arg.type] for arg in tree.args]
            nodes = pset.primitives[DEAP_TYPES[tree.type]]
            words = {node.name for node in nodes if node.args == types}
            assert_rule(
                (name in words) == operation.drawn, f"the grammar draws `{name}` if `drawn`"
            )
            # Fake tensors raise if a value is read on the host.
            with FakeTensorMode():
                value = torch.empty((2, 3, 5, 9) if level == "matrix" else (2, 3, 9), device="cuda")
                try:
                    device = apply_primitive(
                        operation, [value] * operation.arity, level
                    ).device.type
                except DataDependentOutputException as error:
                    raise AssertionError(f"`{name}` never waits for the device") from error
            assert_rule(device == "cuda", f"`{name}` stays on the device of its arguments")


def check_statistic(quantity: Quantity) -> None:
    """Check that a statistic is in the grammar, displayed and measured, for every probe and domain.

    Its matrices are finite, have the shapes that it says, and leave the network alone.
    """
    name, space = quantity.name, get_space("autoformer-nano")
    with QUANTITIES.trial(name, quantity):
        shared = [q.name for q in QUANTITIES.values() if q.symbol == quantity.symbol]
        assert_rule(len(shared) == 1, f"a quantity's letter is its own, not that of {shared}")
        statistics = [s for s in STATISTICS.values() if s.quantity == name]
        for statistic in statistics:
            _check_text(make_tree(str(statistic)))
        words = {*map(str, statistics)}.intersection(Grammar(statistics).terminals)
        assert_rule(words, f"`{name}` is a word of the grammar")
        network = space.build(space.sample(Random(0)), classes=4, seed=1)
        batch = load_image_batch("noise", space.input_shape, 2, 0, classes=4)
        before = {key: value.clone() for key, value in network.state_dict().items()}
        model = QUANTITIES["weight" if quantity.like == "weight" else "act"]
        measured, like = (
            [s for s in STATISTICS.values() if s.quantity == kind and s.domain != "all"]
            for kind in (name, model.name)
        )
        first, again, models = (
            collect_statistics(network, batch, needs) for needs in (measured, measured, like)
        )
        for statistic, other in zip(measured, like, strict=True):
            shapes = [matrix.shape for matrix in models[other]]
            got = [matrix.shape for matrix in first[statistic]]
            rule = f"{statistic} has the shapes of {other}, {shapes}, but got {got}"
            assert_rule(got == shapes, rule)
            for one, two in zip(first[statistic], again[statistic], strict=True):
                assert_rule(one.isfinite().all(), f"{statistic} is finite")
                assert_rule(torch.equal(one, two), f"{statistic} is always the same")
        same = all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
        assert_rule(same, f"{name} leaves the network as it found it")


def check_exporter(exporter: Exporter, trees: int = 50) -> None:
    """Check that an exporter has a docstring, and writes any proxy, always in the same way."""
    assert_rule(exporter.__doc__, "a form says what it is in its docstring")
    rng, grammar = Random(0), Grammar()
    examples = [
        *map(parse_with_zoo_names, EXPRESSION_PROXIES),
        *(grammar.generate(rng) for _ in range(trees)),
    ]
    for tree in examples:
        text = exporter(tree)
        assert_rule(isinstance(text, str) and text.strip(), f"a form is a text, but not of {tree}")
        assert_rule(exporter(tree) == text, f"a form is always the same, but not of {tree}")


def check_proxy(proxy: ExpressionProxy) -> None:
    """Check that a proxy's expression is one number for each network, and that it is cited."""
    assert_rule(proxy.citation.strip(), "a proxy says where it comes from")
    names: Mapping[str, str] = {
        name: other.expression for name, other in EXPRESSION_PROXIES.items()
    }
    tree = require_complete_proxy(parse_expression(proxy.expression, names))
    assert_rule(
        parse_expression(str(tree)) == tree, f"a proxy is read as it is written, but not {tree}"
    )
    form = canonical(tree)
    assert_rule(canonical(form) == form, f"a canonical form is its own, but not {form}")


def check_function_proxy(
    proxy: FunctionProxy, network: TransformerNetwork, batch: Batch, seed: int = 0
) -> None:
    """Check that a proxy is described, repeatable, names the passes it needs, changes nothing."""
    name = proxy.name
    for text in (proxy.citation, proxy.equation, proxy.function.__doc__):
        assert_rule(text and text.strip(), f"{name} has a citation, an equation and a docstring")
    parameters = [(p, p.detach().clone(), p.requires_grad) for p in network.parameters()]
    passes = SharedNetworkPasses(network, batch, seed)
    value = proxy.function(passes)
    assert_rule(
        isinstance(value, float) and not math.isnan(value), f"{name} is a number, got {value}"
    )
    used = {shared for shared in SHARED_PASSES if shared in vars(passes)}
    assert_rule(
        used == proxy.needs, f"{name} reads {sorted(used)}, but needs {sorted(proxy.needs)}"
    )
    again = proxy.function(SharedNetworkPasses(network, batch, seed))
    assert_rule(again == value, f"{name} is {value}, then {again} for the same network")
    for parameter, before, grad in parameters:
        same = bool((parameter == before).all()) and parameter.requires_grad == grad
        assert_rule(same and parameter.grad is None, f"{name} leaves the network as it found it")


def _check_text(tree: Tree) -> None:
    assert_rule(parse_expression(str(tree)) == tree, f"`{tree}` is read as it is written")
    form = canonical(tree)
    assert_rule(
        canonical(form) == form,
        f"the canonical form of `{tree}` is its own canonical form",
    )
    for name, exporter in EXPORTERS.items():
        with suppress(ExportError):  # a form may be one of complete proxies alone
            assert_rule(exporter(tree).strip(), f"`{tree}` is displayed in the form {name}")
    assert_rule(to_sympy(tree) is not None, f"`{tree}` has a sympy form")
