"""Subnets of a supernet: samplers that draw them for training, and files that list them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoprox.files.json_documents import read_json
from autoprox.oneshot.supernet.shared_weights import SupernetError
from autoprox.registry import Registry
from autoprox.searchspaces import (
    Architecture,
    ArchitectureError,
    SearchSpace,
    architectures_from_json,
)

Subnets = Sequence[Architecture]


@dataclass(frozen=True)
class SubnetSampler:
    """Draws the subnets of a step, whose gradients are added up, from a space or a set."""

    draw: Callable[[SearchSpace, Subnets, random.Random], list[Architecture]]
    least: int = 0  # subnets that must be given
    most: int | None = 0  # that may be given; None: any number

    def check(self, name: str, subnets: Subnets) -> None:
        """Raise unless it can draw from this number of subnets."""
        most = len(subnets) if self.most is None else self.most
        if not self.least <= len(subnets) <= most:
            wanted = f"{self.least}" if self.least == self.most else f"at least {self.least}"
            rule = f"the sampler {name} must be given {wanted} subnets"
            raise SupernetError(f"{rule}, but got {len(subnets)}")


def _sandwich(space: SearchSpace, subnets: Subnets, rng: random.Random) -> list[Architecture]:
    """Draw the largest, the smallest and two of the space: Chen et al., S3, NeurIPS 2021."""
    return [space.largest(), space.smallest(), space.sample(rng), space.sample(rng)]


def _preferred(space: SearchSpace, subnets: Subnets, rng: random.Random) -> list[Architecture]:
    """Draw the network-wide options, then a subnet that has them (PreNAS, section 3.3)."""
    groups: dict[tuple[object, ...], list[Architecture]] = {}
    for arch in subnets:
        shared = tuple(arch[name] for name, field in space.fields.items() if not field.listed)
        groups.setdefault(shared, []).append(arch)
    return [rng.choice(rng.choice(list(groups.values())))]


def _prove(name: str, sampler: SubnetSampler) -> None:
    if not isinstance(sampler, SubnetSampler):
        raise SupernetError(f"a sampler is a record of how it draws, but {name} is {sampler!r}")


SUBNET_SAMPLERS: Registry[SubnetSampler] = Registry("samplers", "sampler", SupernetError, _prove)
# Chen et al., "AutoFormer", ICCV 2021.
SUBNET_SAMPLERS.register("uniform", SubnetSampler(lambda space, subnets, rng: [space.sample(rng)]))
SUBNET_SAMPLERS.register("sandwich", SubnetSampler(_sandwich))
SUBNET_SAMPLERS.register("preferred", SubnetSampler(_preferred, least=1, most=None))
# One subnet, as if it were trained alone.
SUBNET_SAMPLERS.register("single", SubnetSampler(lambda space, subnets, rng: list(subnets), 1, 1))


def read_subnet_entries(path: Path, space: SearchSpace) -> list[Architecture]:
    """Read the architectures of a JSON file, such as preferred.json or top.json."""
    try:
        return architectures_from_json(read_json(path).plain(), space)
    except ArchitectureError as error:
        raise SupernetError(f"{path}: {error}") from error


def read_subnets(path: Path, space: SearchSpace) -> tuple[Architecture, ...]:
    """Read the different architectures of a file, in the order of their first entries."""
    return tuple(dict.fromkeys(read_subnet_entries(path, space)))
