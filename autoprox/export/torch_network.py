"""An architecture as a PyTorch module of its own, in readable source."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import groupby
from textwrap import indent
from typing import Any

import torch

from autoprox.export.standalone_source import SourceBundle
from autoprox.searchspaces import Architecture, SearchSpace

# Members of classes that only count and measure.
LEFT_OUT = frozenset(
    {"__new__", "made_of", "params", "macs", "device", "ones", "final_block"}
    | {"layers", "extra_layers", "projections"}
)
RECORD_WIDTH = 80  # columns beyond which a record takes several lines


def torch_network_source(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """A file with the network's classes, and `build(seed)`, which initialises as it is published.

    It needs nothing but torch, and gives the weights that `autoprox.build` gives.
    """
    with torch.device("meta"):
        network = space.network(architecture, classes)
    kind = type(network)
    bundle = SourceBundle(without=LEFT_OUT)
    bundle.add(kind.__module__, kind.__qualname__)
    for record in _records(list(network.init_arguments.values())):
        bundle.add(type(record).__module__, type(record).__qualname__)
    choices = "\n".join(
        f"    {name} = {' '.join(map(str, v)) if isinstance(v, tuple) else v}"
        for name, v in architecture.choices
    )
    call = f"{kind.__name__}(\n{indent(_arguments(network.init_arguments, BREAK), '    ')},\n)"
    evaluation = "" if network.training else ".eval()"
    return f'''"""A network of the search space {space.name}:

{choices}

`build()` gives the network, initialised by its published rule. Written by autoprox.
"""

{bundle.text()}

def build(seed: int = 0) -> {kind.__name__}:
    """The network, its weights drawn from private generators seeded by `seed`."""
    network = {indent(call, "    ").lstrip()}{evaluation}
    network.initialise(seed)
    return network
'''


def _records(value: Any) -> list[Any]:
    """The dataclasses in an argument."""
    if is_dataclass(value):
        return [value]
    parts = value if isinstance(value, list | tuple) else ()
    return [record for part in parts for record in _records(part)]


BREAK = ",\n"


def _source(value: Any) -> str:
    """An argument as source, on several lines where one is too short."""
    if is_dataclass(value):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        kind, arguments = type(value).__name__, _arguments(own, ", ")
        whole = f"{kind}({arguments})"
        return whole if len(whole) <= RECORD_WIDTH else f"{kind}(\n    {arguments}\n)"
    if isinstance(value, list | tuple) and _records(value):
        # Equal entries that follow each other are a product.
        runs = [(text, len(list(run))) for text, run in groupby(map(_source, value))]
        lines = (text if count == 1 else f"*[{text}] * {count}" for text, count in runs)
        return "[\n" + "".join(f"{indent(line, '    ')},\n" for line in lines) + "]"
    if isinstance(value, bool | int | float | str | tuple | list | None):
        return repr(value)
    raise TypeError(f"a network is made of plain values, but got {value!r}")


def _arguments(values: Mapping[str, Any], between: str) -> str:
    return between.join(f"{name}={_source(value)}" for name, value in values.items())
