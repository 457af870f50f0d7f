"""Presets: options of a task that belong together, under one name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from autoprox.errors import ConfigError, nearest

Preset: TypeAlias = Mapping[str, Any]

# The paper's margin of 0.1 is in percent. It mutates until a child is better, uses tau-b, and
# returns the fittest formula.
AUTO_PROX = MappingProxyType(
    {
        "representation": "two-inputs",
        "strategy": "elitist",
        "statistics": (
            *("msa.weight", "msa.grad"),
            *("mlp.weight", "mlp.grad", "mlp.act", "mlp.act_grad"),
        ),
        "population": 20,
        "iterations": 200,
        "children": 1,
        "retries": 10,
        "margin": 0.001,
        "tolerance": 0.0,
        "ties": "tau-b",
    }
)
EVOLVE: Mapping[str, Preset] = MappingProxyType({"auto-prox": AUTO_PROX})


def with_preset(presets: Mapping[str, Preset], given: Preset) -> dict[str, Any]:
    """The options that are given, and for the others those of the preset that is named."""
    name = given.get("preset")
    if name is None:
        return dict(given)
    if not isinstance(name, str) or name not in presets:
        raise ConfigError(f"unknown preset {name!r}{nearest(str(name), presets)}")
    return {**presets[name], **given}


def explained(presets: Mapping[str, Preset]) -> str:
    """What each preset sets, for the help."""
    return "; ".join(
        f"{name}: " + " ".join(f"--{o.replace('_', '-')} {_shown(v)}" for o, v in preset.items())
        for name, preset in presets.items()
    )


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else f"{value}"
