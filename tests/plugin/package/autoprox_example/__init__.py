"""A package that adds one item of each kind to autoprox."""

from pathlib import Path
from random import Random
from typing import Annotated

from deap import base
from torch import Tensor
from torch.nn import functional

from autoprox.benchmarks import BuiltInBenchmark, PinnedBenchmarkFile
from autoprox.benchmarks.user_table import read_packaged_table
from autoprox.declared_options import Option, Positive, Probability
from autoprox.evolution import EvolutionParameters, EvolutionStrategy
from autoprox.evolution.evolution_strategies import Offspring, Population
from autoprox.language import Tree
from autoprox.language.quantities import Quantity
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SearchParameters, SearchStrategy
from autoprox.primitives import operation
from autoprox.searchspaces import get_space
from autoprox.zoo import ExpressionProxy
from autoprox.zoo.functions import SharedNetworkPasses, function_proxy


@operation("map")
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return functional.softsign(x)


def product(weight: Tensor, gradient: Tensor) -> Tensor:
    """What SNIP takes the absolute values of."""
    return weight * gradient


SALIENCY = Quantity(
    name="saliency",
    like="weight",
    reads=("weight", "weight_grad"),
    matrix=product,
    letter="S",
    meaning="weights times their gradients",
)
SMOOTHNESS = ExpressionProxy("Nobody, 2026", "sum(mean(softsign(all.grad)))")


@function_proxy("first-loss", "Nobody, 2026", "-L", needs=("forward",))
def first_loss(passes: SharedNetworkPasses) -> float:
    """How little the untrained network errs."""
    logits = passes.forward.logits
    return -functional.cross_entropy(logits, passes.labels).item()


_NANO = get_space("autoformer-nano")
MINI = type(_NANO)("autoformer-mini", "autoformer-nano by another name", _NANO.fields)
FILE = PinnedBenchmarkFile(
    "mini-bench.json",
    "687a02245746c6da7560fb4bbc9553ed9f5405356bbfd4837e05519ff74c28a4",
    size=1878,
    space="autoformer-nano",
    architectures=12,
)
BENCHMARK = BuiltInBenchmark(
    name="mini-bench",
    description="some networks of nano-bench",
    labels={"autoformer-nano": {"score": ("cifar10",)}},
    classes={"cifar10": 10},
    licence="MIT",
    origin="nano-bench",
    files=(FILE,),
    read=read_packaged_table,
    folder=Path(__file__).parent,
)


class NewcomerParameters(EvolutionParameters):
    """The parameters of all strategies, and an option of its own."""

    share: Annotated[Probability, Option("Part of the children that are newcomers.")] = 1.0


def vary(
    population: Population, toolbox: base.Toolbox, parameters: NewcomerParameters, rng: Random
) -> list[Offspring]:
    """Newcomers, and mutants of the best formula."""
    newcomers = round(parameters.share * parameters.children)
    best = population[0].tree
    return [
        (None, toolbox.generate(rng) if number < newcomers else toolbox.mutate(best, rng))
        for number in range(parameters.children)
    ]


NEWCOMERS = EvolutionStrategy(vary, parameters=NewcomerParameters)


class SingleParameters(SearchParameters):
    """The options of the strategy; one is a text."""

    samples: Annotated[Positive, Option("Steps.")] = 5
    each: Annotated[Positive, Option("Architectures that are scored at a step.")] = 1
    label: Annotated[str, Option("Any text.")] = "none"

    @property
    def candidates(self) -> int:
        return self.samples * self.each


def search(searcher: Searcher, settings: SingleParameters) -> None:
    """Score random architectures, a few at a time."""
    for _ in range(settings.samples):
        searcher.score(searcher.samples(settings.each))
        searcher.step()


SINGLE = SearchStrategy(search, SingleParameters)


def words(tree: Tree) -> str:
    """The words of the expression."""
    return " ".join(str(tree).replace("(", " ").replace(")", " ").replace(",", " ").split())
