"""Shared draws: the initial weights of all networks of a space as slices of one draw.

T-Razor and PreNAS score networks as slices of one untrained supernet. Here the same is defined for
every space: each parameter is the first entries, in every dimension, of one endless draw for its
layer and role, scaled by the network's own rule. A layer's place is its stage, its block within the
stage and its name within the block; layers outside blocks are counted by the block that follows. Of
queries, keys and values in one layer, each part is a slice by itself, and the middle of a
convolution's kernel is that of a larger one.

A space needs no code for it. While a network is initialised, `normal_` and `uniform_` on one of its
parameters take their numbers from the draw instead of the generator; `torch.nn.init` is made of
these. What the rule does with the numbers stays as it is, and so do constants.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autoprox.searchspaces.space import Architecture, SearchSpace
from autoprox.searchspaces.transformer import TransformerBlock, TransformerNetwork

M = TypeVar("M")

KEPT_BYTES = 2**30  # of draws, in one process
FUSED_PARTS = {"qkv": 3, "kv": 2, "in_proj_weight": 3, "in_proj_bias": 3}
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
DRAWS = {torch.ops.aten.normal_.default: "normal_", torch.ops.aten.uniform_.default: "uniform_"}


@dataclass(frozen=True)
class ParameterRole:
    """What a parameter is in the networks of its space, and how it is sliced."""

    name: str
    parts: int = 1  # of its rows, each of which is sliced by itself
    has_kernel: bool = False  # from the third dimension on


class SharedDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which parameters take slices of shared draws instead of random numbers.

    The function says which parameter a tensor is, if any. Draws of one group belong together.
    """

    def __init__(self, group: str, role_of: Callable[[Tensor], ParameterRole | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._group, self._role_of = group, role_of

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace a random draw of a parameter, and let all else pass."""
        kind = DRAWS.get(func)
        role = None if kind is None else self._role_of(args[0])
        if kind is None or role is None:
            return func(*args, **(kwargs or {}))
        target, *given = args
        settings: list[Any] = [*given, *(0.0, 1.0)[len(given) :]]  # of both kinds the defaults
        first, second = settings
        scale = second if kind == "normal_" else second - first
        numbers = shared_numbers(self._group, role, kind, tuple(target.shape))
        return target.copy_(numbers).mul_(scale).add_(first)


class NetworkRoles:
    """Finds the roles of a network's parameters, given by name, also if they are replaced."""

    def __init__(self, network: nn.Module, roles: Mapping[str, ParameterRole]) -> None:
        self._network, self._roles = network, roles
        self._by_address: dict[int, tuple[ParameterRole, Tensor]] = {}
        self._views: Counter[str] = Counter()

    def __call__(self, target: Tensor) -> ParameterRole | None:
        """Return the role of a parameter, or of a part of one; None for other tensors."""
        address = target.untyped_storage().data_ptr()
        if address not in self._by_address:
            self._by_address = {
                parameter.untyped_storage().data_ptr(): (self._roles[name], parameter)
                for name, parameter in self._network.named_parameters()
                if name in self._roles
            }
        if address not in self._by_address:
            return None
        role, parameter = self._by_address[address]
        if target.numel() == parameter.numel():
            return role
        self._views[role.name] += 1  # queries, for example, may be drawn apart from keys
        return ParameterRole(f"{role.name} view {self._views[role.name]}")


def space_draws(
    space: SearchSpace, arch: Architecture, network: nn.Module, seed: int
) -> Callable[[], SharedDraws]:
    """Return what makes contexts in which a network takes the draws that its space shares."""
    roles = parameter_roles(network, space.stages(arch))
    return lambda: SharedDraws(f"{space.name} {seed}", NetworkRoles(network, roles))


def shared_network(
    space: SearchSpace, arch: Architecture, classes: int = 1000, seed: int = 0
) -> TransformerNetwork:
    """Return a network of a space, initialised from the draws that its networks share."""
    network = space.network(arch, classes)
    with space_draws(space, arch, network, seed)():
        network.initialise(seed)
    return network


def made_with_shared_draws(
    make: Callable[[], M], module_of: Callable[[M], nn.Module], seed: int
) -> M:
    """Return what `make` returns, a model's parameters drawn as slices by their names.

    It is called twice: the first time shows which parameters it draws, and in which order.
    """
    group = f"models {seed}"
    drawn: list[Tensor] = []
    with SharedDraws(group, drawn.append):
        first = make()
    model = module_of(first)
    role_of = NetworkRoles(model, parameter_roles(model, ()))
    roles = iter([role_of(target) for target in drawn])
    with SharedDraws(group, lambda target: next(roles, None)):
        return make()


def parameter_roles(
    network: nn.Module, stages: Sequence[Sequence[object]]
) -> dict[str, ParameterRole]:
    """Return the role of each parameter, which doesn't depend on the depth of earlier stages."""
    roles: dict[str, ParameterRole] = {}
    places = [f"stage {s} block {b}" for s, own in enumerate(stages) for b in range(len(own))]
    modules = dict(network.named_modules())
    starts = [path for path, own in modules.items() if isinstance(own, TransformerBlock)]
    lists = {path[:end] for path in starts for end, sign in enumerate(path) if sign == "."}
    places += [f"block {index}" for index in range(len(places), len(starts))] + ["end"]
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    inside, passed, seen = None, 0, Counter[str]()
    for path, module in modules.items():
        if isinstance(module, TransformerBlock):
            inside, passed = path, passed + 1
        if inside is not None and f"{path}.".startswith(f"{inside}."):
            place = f"{places[passed - 1]}{path[len(inside) :]}"
        else:
            place = f"before {places[passed]}: {_without_numbers(path, lists)}"
        for name, parameter in module.named_parameters(recurse=False):
            role = f"{place} {name}"
            seen[role] += 1
            parts = FUSED_PARTS.get(path.rpartition(".")[2], FUSED_PARTS.get(name, 1))
            has_kernel = isinstance(module, CONVOLUTIONS) and parameter.dim() > 2
            # A parameter of several modules has the role that it has in the first.
            own = ParameterRole(f"{role} {seen[role]}", parts, has_kernel)
            roles.setdefault(names[id(parameter)], own)
    return roles


def _without_numbers(path: str, lists: set[str]) -> str:
    """Return a path without the indices of lists that blocks are in, too."""
    parts = path.split(".")
    kept = (n for i, n in enumerate(parts) if not (n.isdigit() and ".".join(parts[:i]) in lists))
    return ".".join(kept)


def shared_numbers(group: str, role: ParameterRole, kind: str, shape: tuple[int, ...]) -> Tensor:
    """Return the standard numbers of a parameter of some shape."""
    if role.parts > 1 and shape[0] % role.parts == 0:
        part = (shape[0] // role.parts, *shape[1:])
        names = (f"{role.name} part {number}" for number in range(role.parts))
        return torch.cat([KEPT.numbers(group, name, kind, part) for name in names])
    numbers = KEPT.numbers(group, role.name, kind, shape)
    if role.has_kernel:
        for dim in range(2, len(shape)):
            numbers = numbers.index_select(dim, _distance_from_middle(shape[dim]))
    return numbers


def _distance_from_middle(size: int) -> Tensor:
    """Rank the rows of a kernel by their distance from the middle."""
    return (torch.arange(size) - size // 2).abs().argsort(stable=True).argsort()


class KeptDraws:
    """Draws as large as they were needed so far, within a limit of memory.

    Each belongs to a group, a space with a seed; those of the groups used last are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: OrderedDict[str, dict[str, Tensor]] = OrderedDict()
        self._lock = Lock()

    @property
    def size(self) -> int:
        """The bytes of all draws."""
        return sum(draw.nbytes for group in self._groups.values() for draw in group.values())

    def numbers(self, group: str, name: str, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Return the first numbers of a draw, in every dimension; they are not to be changed."""
        key = f"{group} {name} {kind} {len(shape)}"
        with self._lock:
            known = self._groups.get(group, {}).get(key)
        if known is None or any(map(int.__lt__, known.shape, shape)):
            needed = shape if known is None else tuple(map(max, known.shape, shape))
            known = endless_draw(key, kind, needed)
            self._keep(group, key, known)
        return known[tuple(map(slice, shape))]

    def _keep(self, group: str, key: str, draw: Tensor) -> None:
        with self._lock:
            own = self._groups.setdefault(group, {})
            self._groups.move_to_end(group)
            own.pop(key, None)
            while self.size + draw.nbytes > self._limit and len(self._groups) > 1:
                self._groups.popitem(last=False)
            if self.size + draw.nbytes <= self._limit:
                own[key] = draw


KEPT = KeptDraws(KEPT_BYTES)


def endless_draw(key: str, kind: str, shape: tuple[int, ...]) -> Tensor:
    """Return the first numbers, in every dimension, of a draw without an end.

    It is made of blocks between powers of two, each from a generator of its own, so that a number
    depends on its position alone.
    """
    draw = torch.empty(shape, dtype=torch.float32, device="cpu")
    starts = [[0, *(1 << power for power in range((size - 1).bit_length()))] for size in shape]
    for corner in product(*starts):
        seed = hashlib.sha256(f"{key} {corner}".encode()).digest()[:7]
        generator = torch.Generator().manual_seed(int.from_bytes(seed, "big"))
        block = draw.new_empty([max(start, 1) for start in corner])
        getattr(block, kind)(generator=generator)
        ends = [min(start + max(start, 1), size) for start, size in zip(corner, shape, strict=True)]
        pairs = list(zip(corner, ends, strict=True))
        draw[tuple(slice(*pair) for pair in pairs)] = block[
            tuple(slice(end - start) for start, end in pairs)
        ]
    return draw
