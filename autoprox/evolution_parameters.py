"""The parameters of evolutions and trees, declared where commands can show them without torch."""

from functools import partial
from typing import Annotated, Protocol

from annotated_types import Ge, Gt, Le

from autoprox.declared_options import Many, Option, Options, Positive, Whole

MAX_SIZE = 1_000
MAX_DEPTH = 100
MAX_TERMS = 30
TOLERANCE = 1
BY_FORM = "{}; with --form tree, {}"  # a default that depends on the form
EvolutionOption = partial(Option, group="Evolution")


class Sized(Protocol):
    """Anything with the size and the depth of a tree."""

    @property
    def size(self) -> int: ...

    @property
    def depth(self) -> int: ...


class TreeLimits(Options):
    """The most nodes of a tree, and the most operations between its root and a terminal."""

    noun = "a grammar"

    max_size: Annotated[
        Positive,
        Le(MAX_SIZE),
        EvolutionOption("Most nodes of a formula, or of a term.", default=BY_FORM.format(7, 40)),
    ] = 40
    max_depth: Annotated[
        Positive,
        Le(MAX_DEPTH),
        EvolutionOption(
            "Most nested operations of a formula, or of a term.", default=BY_FORM.format(6, 10)
        ),
    ] = 10

    def allow(self, tree: Sized) -> bool:
        """Return whether a tree is within the limits."""
        return tree.size <= self.max_size and tree.depth <= self.max_depth


class EvolutionParameters(Options):
    """How formulas are evolved; Auto-Prox's margin of 0.1 is in percent."""

    noun = "an evolution"

    form: Annotated[
        str,
        EvolutionOption(
            "power-law: a product of powers of a few terms, whose exponents are fitted to the true "
            "scores; tree: a single formula, as in Auto-Prox.",
            choices=("power-law", "tree"),
        ),
    ] = "power-law"
    terms: Annotated[Positive, Le(MAX_TERMS), EvolutionOption("Most terms of a power law.")] = 8
    strategy: Annotated[
        str,
        EvolutionOption(
            "Strategy of the evolution: mixture, elitist (Auto-Prox), naive or random.",
            choices=("mixture", "elitist", "naive", "random"),
        ),
    ] = "mixture"
    representation: Annotated[
        str,
        EvolutionOption(
            "Shape of the formulas: free, or two-inputs (Auto-Prox).",
            choices=("free", "two-inputs"),
        ),
    ] = "free"
    population: Annotated[
        Many,
        Ge(2),
        EvolutionOption(
            "Population: the formulas that survive an iteration; for power laws, the random terms "
            "to start with.",
            default=BY_FORM.format(1500, 20),
        ),
    ] = 20
    iterations: Annotated[
        Positive,
        EvolutionOption(
            "Number of iterations, each of which makes children.", default=BY_FORM.format(10, 200)
        ),
    ] = 200
    children: Annotated[
        Many,
        EvolutionOption(
            "New formulas, or terms, in each iteration.", default=BY_FORM.format(150, 10)
        ),
    ] = 10
    sample_ratio: Annotated[
        float, Gt(0), Le(1),
        EvolutionOption("Share of the population that is sampled for parents."),
    ] = 0.5  # fmt: skip
    parents: Annotated[
        Positive, EvolutionOption("Parents are drawn from this many best of that sample.")
    ] = 5
    margin: Annotated[
        float, Ge(0), Le(2),
        EvolutionOption("How much better than its parent a child must be (elitist)."),
    ] = 0.001  # fmt: skip
    retries: Annotated[
        Whole, EvolutionOption("How often a child that isn't better is mutated again.")
    ] = 3
    objective: Annotated[
        str,
        EvolutionOption(
            "What is maximised: jcm (Auto-Prox's joint metric of Kendall's taus), size-adjusted "
            "(that of the partial taus, controlling for parameter count), or both (NSGA-II on both "
            "and the size of formulas).",
            choices=("jcm", "size-adjusted", "both"),
        ),
    ] = "jcm"
    tolerance: Annotated[
        float | None, Ge(0),
        EvolutionOption(
            "The shortest formula within this many standard errors of the best is chosen. Only "
            "with --form tree.",
            default=str(TOLERANCE),
        ),
    ] = None  # fmt: skip
    evaluations: Annotated[
        Positive | None,
        EvolutionOption(
            "Limit on the formulas that an evolution evaluates, which may end it early. With "
            "--hold-out each, it applies to each evolution.",
            default="none",
        ),
    ] = None
