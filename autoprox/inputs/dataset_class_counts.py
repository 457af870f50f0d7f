"""The number of classes of known datasets."""

from collections.abc import Mapping
from types import MappingProxyType

DATASET_CLASSES: Mapping[str, int] = MappingProxyType(
    {"cifar100": 100, "flowers": 102, "chaoyang": 4, "imagenet": 1000}
)
