"""Where networks are measured."""

import torch

from autoprox.errors import ConfigError, nearest

DEVICES = ("auto", "cpu", "cuda", "mps")


def resolve_device(name: str) -> str:
    """The device that is meant: `auto` is CUDA, else MPS, else the CPU."""
    usable = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, found in usable.items() if found)
    if name not in DEVICES:
        raise ConfigError(f"unknown device {name!r}{nearest(name, DEVICES)}")
    if not usable[name]:
        here = ", ".join(["auto", *(device for device, found in usable.items() if found)])
        raise ConfigError(f"a device must be there, but {name!r} is not; choose from {here}")
    return name
