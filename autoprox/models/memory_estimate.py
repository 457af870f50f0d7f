"""The memory that the score of a model takes, and the available memory of this machine."""

from contextlib import ExitStack, suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from autoprox.models.model_adapter import evaluation_mode

# Peaks that were measured on ViT-B, BERT and GPT-2, as multiples of the parameters' bytes, are 3.6
# to 4.3 of proxies that read gradients and 2.8 of those that read weights alone.
GRADIENTS_FACTOR = 3.5  # the parameters, their gradients, and a copy of both for layers of blocks
WEIGHTS_FACTOR = 2.5  # the parameters, and a copy of those that are read with their derived values
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
LIMITS = (  # of a container: its limit and its use
    (CGROUP / "memory.max", CGROUP / "memory.current"),
    (CGROUP / "memory/memory.limit_in_bytes", CGROUP / "memory/memory.usage_in_bytes"),
)


def available_memory() -> int | None:
    """Return the bytes that a program can still have; None if the system doesn't say."""
    found = []
    with suppress(OSError, StopIteration, ValueError, IndexError):
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    for limit, used in LIMITS:
        with suppress(OSError, ValueError):  # without a limit there is a word
            found.append(int(limit.read_text()) - int(used.read_text()))
    return min(found, default=None)


def parameter_bytes(model: nn.Module) -> int:
    """Return the bytes of a model's parameters, each once."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def activation_bytes(model: nn.Module, inputs: Tensor) -> int:
    """Return the bytes of the outputs of all layers, by a pass on torch's meta device.

    0 for a model that can't be run there: then its parameters alone are counted.
    """
    total = 0

    def count(module: nn.Module, args: object, output: object) -> None:
        nonlocal total
        if isinstance(output, Tensor) and not any(module.children()):
            total += output.numel() * output.element_size()

    try:
        with ExitStack() as hooks, torch.no_grad(), torch.device("meta"), evaluation_mode(model):
            for module in model.modules():
                hooks.enter_context(module.register_forward_hook(count))
            model(inputs)
    except Exception:  # it isn't our code
        return 0
    return total


def needed_memory(parameters: int, activations: int, gradients: bool) -> int:
    """Return the least bytes that a score takes.

    The activations are kept while there are no copies yet.
    """
    if not gradients:
        return round(WEIGHTS_FACTOR * parameters)
    return max(round(GRADIENTS_FACTOR * parameters), 2 * parameters + activations)
