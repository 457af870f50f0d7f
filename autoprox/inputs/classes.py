"""How many classes the known datasets have."""

from collections.abc import Mapping
from types import MappingProxyType

CLASSES: Mapping[str, int] = MappingProxyType(
    {"cifar100": 100, "flowers": 102, "chaoyang": 4, "imagenet": 1000}
)
