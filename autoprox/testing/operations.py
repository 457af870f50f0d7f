"""What must hold for an operation, and for all that is derived of it."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.export import EXPORTERS, to_sympy
from autoprox.language import NETWORK, Tree, Type, canonical, make, parse
from autoprox.language.grammar import DEAP_TYPES, Grammar
from autoprox.primitives import OPERATIONS, Level, Primitive, apply
from autoprox.testing.require import require

SOURCES: dict[Level, tuple[str, str]] = {
    "matrix": ("all.weight", "all.grad"),
    "layers": ("width", "heads"),
    "network": ("sum(width)", "sum(heads)"),
}


def check_operation(operation: Primitive) -> None:
    """It passes its proof, is a word of the language, is displayed, and never waits for a device.

    The proof calls it on values of every size, at both levels and precisions.
    """
    with OPERATIONS.trial(operation.name, operation):
        for level in levels(operation):
            tree = make(operation.name, *map(parse, SOURCES[level][: operation.arity]))
            _check_language(tree)
            _check_device(operation, level)


def levels(operation: Primitive) -> tuple[Level, ...]:
    """The levels of value that an operation works on."""
    if operation.kind == "combinator":
        return ("network",)
    return ("matrix", "layers", "network") if operation.kind == "binary" else ("matrix", "layers")


def _check_language(tree: Tree) -> None:
    name = tree.symbol
    require(parse(str(tree)) == tree, f"`{name}` is read as it is written")
    form = canonical(tree)
    require(canonical(form) == form, f"the canonical form of `{name}` is its own canonical form")
    for form_name, exporter in EXPORTERS.items():
        require(exporter.write(tree).strip(), f"`{name}` is displayed in the form {form_name}")
    require(to_sympy(tree) is not None, f"`{name}` has a sympy form")
    pset = Grammar().pset
    types = [NETWORK] if tree.type == NETWORK else [tree.type, Type("Layers", "all")]
    words = {node.name for t in types for node in pset.primitives[DEAP_TYPES[t]]}
    require(name in words, f"`{name}` is a word of the grammar")


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
