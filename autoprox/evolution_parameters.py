"""The parameters of evolutions and trees, declared where commands can show them without torch."""

from typing import Annotated, Protocol

from annotated_types import Ge, Gt, Le

from autoprox.declared_options import Many, Option, Options, Positive, Whole

GROUP = "Evolution"
MAX_SIZE = 1_000
MAX_DEPTH = 100


class Sized(Protocol):
    """What has the size of a tree."""

    @property
    def size(self) -> int: ...

    @property
    def depth(self) -> int: ...


class TreeLimits(Options):
    """The most nodes of a tree, and the most operations between its root and a terminal."""

    noun = "a grammar"

    max_size: Annotated[Positive, Le(MAX_SIZE), Option("Nodes of a formula.", GROUP)] = 40
    max_depth: Annotated[
        Positive, Le(MAX_DEPTH), Option("Nested operations of a formula.", GROUP)
    ] = 10

    def allow(self, tree: Sized) -> bool:
        """Whether a tree keeps them."""
        return tree.size <= self.max_size and tree.depth <= self.max_depth


class EvolutionParameters(Options):
    """How formulas are evolved; Auto-Prox's margin of 0.1 is in percent."""

    noun = "an evolution"

    strategy: Annotated[str, Option("mixture, elitist (Auto-Prox), naive or random.", GROUP)] = (
        "mixture"
    )
    representation: Annotated[
        str, Option("Form of the formulas: free, or two-inputs (Auto-Prox).", GROUP)
    ] = "free"
    population: Annotated[Many, Ge(2), Option("Formulas that survive an iteration.", GROUP)] = 20
    iterations: Annotated[Positive, Option("How often children are made.", GROUP)] = 200
    children: Annotated[Many, Option("New formulas an iteration.", GROUP)] = 10
    sample_ratio: Annotated[
        float, Gt(0), Le(1), Option("Part of the population that parents are drawn from.", GROUP)
    ] = 0.5
    top: Annotated[Positive, Option("A parent is one of the best so many of that part.", GROUP)] = 5
    margin: Annotated[
        float, Ge(0), Le(2), Option("How much better than its parent a child is (elitist).", GROUP)
    ] = 0.001
    retries: Annotated[Whole, Option("How often a child that isn't is mutated again.", GROUP)] = 3
    objective: Annotated[
        str,
        Option(
            "jcm (Auto-Prox's joint metric of Kendall's taus), equal-size (that of the taus given "
            "the parameter count), or both (NSGA-II on both and the size of formulas).",
            GROUP,
        ),
    ] = "jcm"
    tolerance: Annotated[
        float,
        Ge(0),
        Option("The shortest formula is chosen within so many standard errors of the best.", GROUP),
    ] = 1.0
    evaluations: Annotated[
        Positive | None,
        Option(
            "Formulas that an evolution evaluates at most, which may end it before its "
            "iterations. With --hold-out each, every evolution has as many.",
            GROUP,
            default="none",
        ),
    ] = None
