"""An architecture as a PyTorch module of its own, in readable source."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from textwrap import indent
from typing import Any

import torch

from autoprox.export.source import Bundle
from autoprox.searchspaces import Architecture, SearchSpace

# What only counts and measures.
LEFT_OUT = frozenset(
    {"__new__", "init_arguments", "params", "macs", "device", "ones", "final_block"}
    | {"layers", "extra_layers", "projections"}
)
WIDTH = 80  # columns beyond which a record takes several lines


def torch_source(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """A file with the network's classes, and `build(seed)`, which initialises as it is published.

    It needs nothing but torch, and gives the weights that `autoprox.build` gives.
    """
    with torch.device("meta"):
        network = space.network(architecture, classes)
    kind = type(network)
    bundle = Bundle(without=LEFT_OUT)
    bundle.add(kind.__module__, kind.__qualname__)
    for value in network.init_arguments.values():
        for record in _records(value):
            bundle.add(type(record).__module__, type(record).__qualname__)
    call = _source(network.init_arguments, kind.__name__)
    evaluation = "" if network.training else ".eval()"
    return f'''"""{_title(space, architecture)}

`build()` gives the network, initialised by its published rule. Written by autoprox.
"""

{bundle.text()}

def build(seed: int = 0) -> {kind.__name__}:
    """The network, its weights drawn from private generators seeded by `seed`."""
    network = {indent(call, "    ").lstrip()}{evaluation}
    network.initialise(seed)
    return network
'''


def _title(space: SearchSpace, architecture: Architecture) -> str:
    choices = "\n".join(f"    {name} = {_plain(v)}" for name, v in architecture.choices)
    return f"A network of the search space {space.name}:\n\n{choices}"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _records(value: Any) -> list[Any]:
    """The dataclasses in an argument."""
    if is_dataclass(value):
        return [value]
    parts = value if isinstance(value, list | tuple) else ()
    return [record for part in parts for record in _records(part)]


def _source(value: Any, name: str = "") -> str:
    """An argument as source, on several lines where one is too short."""
    if is_dataclass(value):
        kind, arguments = type(value).__name__, _arguments(_fields(value), ", ")
        whole = f"{kind}({arguments})"
        return whole if len(whole) <= WIDTH else f"{kind}(\n    {arguments}\n)"
    if isinstance(value, Mapping):
        return f"{name}(\n{indent(_arguments(value, _BREAK), '    ')},\n)"
    if isinstance(value, list | tuple) and _records(value):
        return _listed(value)
    if isinstance(value, bool | int | float | str | tuple | list | None):
        return repr(value)
    raise TypeError(f"a network is made of plain values, but got {value!r}")


_BREAK = ",\n"


def _arguments(values: Mapping[str, Any], between: str) -> str:
    return between.join(f"{name}={_source(value)}" for name, value in values.items())


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _listed(values: Sequence[Any]) -> str:
    """A list, equal entries that follow each other as a product."""
    runs: list[tuple[str, int]] = []
    for text in map(_source, values):
        if runs and runs[-1][0] == text:
            runs[-1] = (text, runs[-1][1] + 1)
        else:
            runs.append((text, 1))
    lines = (text if count == 1 else f"*[{text}] * {count}" for text, count in runs)
    return "[\n" + "".join(f"{indent(line, '    ')},\n" for line in lines) + "]"
