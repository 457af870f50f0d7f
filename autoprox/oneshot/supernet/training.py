"""The training of a supernet: steps that depend on the seed and their number alone.

What a step draws doesn't depend on the steps before it, so that weights and moments are all that a
training needs to go on. Where several processes train, each has its part of every batch, and all
have the same weights.
"""

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, distributed
from torch.nn import functional

from autoprox.inputs.datasets import Images
from autoprox.oneshot.supernet.recipe import SupernetRecipe
from autoprox.oneshot.supernet.samplers import SAMPLERS
from autoprox.oneshot.supernet.slices import Supernet
from autoprox.oneshot.supernet.stochastic_depth import drop_branches, drop_rates
from autoprox.searchspaces import Architecture, TransformerNetwork
from autoprox.searchspaces.transformer import Layer
from autoprox.training.recipes import DivergedError

KEPT = 32  # subnets that needn't be made again
MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW, by its names


@dataclass(frozen=True)
class Place:
    """Which of the processes that train this is."""

    rank: int = 0
    processes: int = 1


def generator_of(seed: int, step: int) -> random.Random:
    """Return the generator from which a step draws its subnets."""
    return random.Random(f"{seed} {step}")


class SupernetTraining:
    """A supernet, what it is trained on, and how far it is."""

    def __init__(
        self,
        supernet: Supernet,
        data: Images,
        recipe: SupernetRecipe,
        sampler: str,
        subnets: Sequence[Architecture] = (),
        *,
        seed: int = 0,
        place: Place | None = None,
    ) -> None:
        self._draw = SAMPLERS.find(sampler)
        self._draw.check(sampler, subnets)
        self.supernet = supernet
        self.data = data
        self.recipe = recipe
        self.subnets = subnets
        self.seed = seed
        self.place = place or Place()
        self.epoch = 0  # the next
        self.steps = 0  # that were made
        self.optimizer = torch.optim.AdamW(self._groups(), fused=True)
        self._generator = torch.Generator()
        self._rates = drop_rates(supernet.network, recipe.drop_path)
        self._subnet = lru_cache(KEPT)(self._made)

    def train_epoch(self) -> float:
        """Train one epoch; returns the mean loss, and raises where it isn't finite."""
        order = self.recipe.order(self.recipe.samples(self.data), self._stream("order", self.epoch))
        losses = torch.zeros(len(order))
        for place, chosen in enumerate(order):
            losses[place] = self._train_step(chosen, self.recipe.epochs * len(order))
        self.epoch += 1
        loss = self._shared(losses).mean().item()
        if not math.isfinite(loss):
            raise DivergedError(f"the loss became {loss}")
        return loss

    def _train_step(self, chosen: Tensor, steps: int) -> float:
        """The gradients of all subnets that are drawn, on the same images; one update."""
        step = self.steps
        rank, processes = self.place.rank, self.place.processes
        generator = self._stream(f"process {rank}", step)
        images, targets = self.recipe.prepare(self.data, chosen[rank::processes], generator)
        self._generator.set_state(generator.get_state())
        device = self.supernet.gradients.device
        images, targets = images.to(device), targets.to(device)
        rng = generator_of(self.seed, step)
        drawn = self._draw.draw(self.supernet.space, self.subnets, rng)
        self.supernet.gradients.zero_()
        total = 0.0
        for arch in drawn:
            logits = self._subnet(arch)(images)
            smoothing = self.recipe.label_smoothing
            loss = functional.cross_entropy(logits, targets, label_smoothing=smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        self._shared(self.supernet.gradients)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * self.recipe.factor(step, steps)
        self.optimizer.step()
        self.steps += 1
        return total / len(drawn)

    def state(self) -> dict[str, Tensor]:
        """Weights and moments, by the names of the parameters."""
        found = {}
        for name, parameter in self.supernet.parameters.items():
            found[f"weight.{name}"] = parameter.detach()
            for moment in MOMENTS:
                known = self.optimizer.state.get(parameter, {})
                found[f"{moment}.{name}"] = known.get(moment, torch.zeros_like(parameter))
        return found

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor], epoch: int, steps: int) -> None:
        """Go back to a state that was saved after so many epochs and steps."""
        self.epoch, self.steps = epoch, steps
        for name, parameter in self.supernet.parameters.items():
            parameter.copy_(state[f"weight.{name}"])
            own = {moment: state[f"{moment}.{name}"].to(parameter) for moment in MOMENTS}
            step = torch.tensor(float(steps), device=parameter.device)
            self.optimizer.state[parameter] = {"step": step, **own}

    def _made(self, arch: Architecture) -> TransformerNetwork:
        network = self.supernet.subnet(arch).train()
        drop_branches(network, self._rates, self._generator)
        return network

    def _groups(self) -> list[dict[str, object]]:
        """Weights of layers decay; biases, norms and embeddings don't."""
        modules = self.supernet.network.modules()
        layers = {id(module.weight) for module in modules if isinstance(module, Layer)}
        decay = self.recipe.weight_decay
        own = list(self.supernet.parameters.values())
        return [
            {"params": [p for p in own if id(p) in layers], "weight_decay": decay},
            {"params": [p for p in own if id(p) not in layers], "weight_decay": 0.0},
        ]

    def _stream(self, use: str, number: int) -> torch.Generator:
        digest = hashlib.sha256(f"{self.seed} {use} {number}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def _shared(self, tensor: Tensor) -> Tensor:
        """The mean over all processes, in place."""
        if self.place.processes > 1:
            distributed.all_reduce(tensor)
            tensor /= self.place.processes
        return tensor
