"""Which subnets a training step draws."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprox.oneshot.supernet.slices import SupernetError
from autoprox.registry import Registry
from autoprox.searchspaces import Architecture, SearchSpace

Draw = Callable[[SearchSpace, Sequence[Architecture], random.Random], list[Architecture]]


@dataclass(frozen=True)
class Sampler:
    """Draws the subnets of a step, whose gradients are added, from the space or from a set."""

    draw: Draw
    least: int = 0  # how many subnets it must be given
    most: int | None = 0  # and how many at most; None: any number

    def check(self, name: str, subnets: Sequence[Architecture]) -> None:
        """Raise unless it can draw from as many subnets."""
        most = len(subnets) if self.most is None else self.most
        if not self.least <= len(subnets) <= most:
            wanted = f"{self.least}" if self.least == self.most else f"at least {self.least}"
            rule = f"the sampler {name} must be given {wanted} subnets"
            raise SupernetError(f"{rule}, but got {len(subnets)}")


def _uniform(
    space: SearchSpace, subnets: Sequence[Architecture], rng: random.Random
) -> list[Architecture]:
    """One of the space: Chen et al., "AutoFormer", ICCV 2021."""
    return [space.sample(rng)]


def _sandwich(
    space: SearchSpace, subnets: Sequence[Architecture], rng: random.Random
) -> list[Architecture]:
    """The largest, the smallest and two of the space: Chen et al., S3, NeurIPS 2021."""
    return [space.largest(), space.smallest(), space.sample(rng), space.sample(rng)]


def _preferred(
    space: SearchSpace, subnets: Sequence[Architecture], rng: random.Random
) -> list[Architecture]:
    """One of the set: first what holds for its whole network, then it (PreNAS, section 3.3)."""
    groups: dict[tuple[object, ...], list[Architecture]] = {}
    for arch in subnets:
        shared = tuple(arch[name] for name, field in space.fields.items() if not field.listed)
        groups.setdefault(shared, []).append(arch)
    return [rng.choice(rng.choice(list(groups.values())))]


def _single(
    space: SearchSpace, subnets: Sequence[Architecture], rng: random.Random
) -> list[Architecture]:
    """Always the same, as if it were trained alone."""
    return list(subnets)


def _prove(name: str, sampler: Sampler) -> None:
    if not isinstance(sampler, Sampler):
        raise SupernetError(f"a sampler is a record of how it draws, but {name} is {sampler!r}")


SAMPLERS: Registry[Sampler] = Registry("samplers", "sampler", SupernetError, _prove)
SAMPLERS.register("uniform", Sampler(_uniform))
SAMPLERS.register("sandwich", Sampler(_sandwich))
SAMPLERS.register("preferred", Sampler(_preferred, least=1, most=None))
SAMPLERS.register("single", Sampler(_single, least=1, most=1))
