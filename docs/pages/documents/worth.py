"""Of evolve, rank and compare: what proxies are worth."""

from typing import Annotated, Any, Literal

from pydantic import Field

from autoprox.files.json_documents import Document

Number = float | None  # None where it isn't finite, or can't be known
Interval = tuple[Number, Number]


class Shortfall(Document):
    """A count of which less was possible than was asked for; `reason` continues `found`."""

    of: str
    asked: int
    found: int
    reason: str


class Reduced(Document):
    """The result of a command that says what it did less of than it was asked to."""

    shortfalls: Annotated[
        list[Shortfall], Field(description="What was done less of than was asked for; often empty.")
    ]


class Sized(Document):
    """What is left of a tau at equal size, with bootstrap 95 % intervals."""

    kendall: Annotated[Number, Field(description="Kendall's tau; ties of scores count nothing.")]
    interval: Interval
    partial_tau: Annotated[Number, Field(description="Partial tau given the parameter count.")]
    partial_tau_interval: Interval
    near_size_tau: Annotated[
        Number, Field(description="Tau over pairs whose parameters differ by less than 10 %.")
    ]
    near_size_tau_interval: Interval


class Figures(Sized):
    """How well scores rank the networks of one dataset."""

    tau_b: Number
    spearman: Number
    pearson: Number
    regret: Annotated[
        list[Number], Field(description="What the pick loses on five budgets of parameters.")
    ]


Table = dict[str, Figures]  # by dataset


class Parts(Document):
    """By part of the split, by dataset."""

    train: Table
    test: Table


class MeanParts(Document):
    """Means over the datasets, by part of the split."""

    train: Sized
    test: Sized


class Difference(Document):
    """A difference of two taus by a paired bootstrap."""

    difference: Number
    interval: Interval
    verdict: Literal["better", "level", "worse"] | None


Comparison = dict[str, dict[Literal["kendall", "partial_tau", "near_size_tau"], Difference]]


class Zoo(Document):
    """The published proxies that were compared, and the best of them on the training part.

    Their figures are among those of the baselines, by name.
    """

    compared: list[str]
    best: dict[str, str]
    refused: Annotated[dict[str, str], Field(description="Why a proxy can't be measured.")]
    missing: Annotated[
        dict[str, int], Field(description="On how many networks a proxy has no value.")
    ]


class Budgets(Document):
    """The budgets of a table of regrets, and how many networks each allows."""

    params: list[int]
    networks: list[int]


class SizeCheck(Document):
    """Kendall's tau of the scores with sizes."""

    networks: int
    pairs: int
    params: Number
    flops: Number
    depth: Number


class Networks(Document):
    """The networks of a part of the split, in one order: numbers, sizes, scores, true scores."""

    network: list[int]
    params: list[float]
    scores: dict[str, list[Number]]
    truth: dict[str, list[float]]


class BootstrapMetrics(Document):
    """What a formula is worth on a benchmark, beside baselines and published proxies."""

    expression: str
    formula: str
    train: Table
    test: Table
    baselines: dict[str, Parts]
    means: dict[str, MeanParts]
    comparison: Comparison
    zoo: Zoo
    budgets: dict[str, dict[str, Budgets]]
    size: dict[str, SizeCheck]
    networks: dict[str, Networks]
    seed_share: Annotated[
        Number, Field(description="How far another seed changes scores, relative to their spread.")
    ]
    failed_networks: dict[str, str]


class Member(Document):
    """A formula of the Pareto front."""

    expression: str
    size: int
    jcm: float
    partial_tau: float
    chosen: bool


class Asked(Document):
    """How many were asked for, None if there was no limit, and how many there are."""

    asked: int | None
    done: int


class EvolutionCounts(Document):
    """What an evolution was to do and what it did; of several islands, the one that did least."""

    iterations: Asked
    evaluations: Annotated[Asked, Field(description="Of all islands together.")]
    population: Asked


Ended = Annotated[str | None, Field(description="How the budget ended the evolution, if it did.")]


class Evolve(BootstrapMetrics, Reduced):
    """`autoprox evolve`."""

    run: str
    objective: str
    ties: str
    front: list[Member]
    evaluations: int
    counts: EvolutionCounts
    ended: Ended
    invalid: dict[str, int]
    inputs: dict[str, str]
    benchmark: str
    seconds: float


class Island(Document):
    """One of the populations of an evolution."""

    iterations: int
    evaluations: int


class Fold(Document):
    """An evolution on some of the spaces, tested on all."""

    held_out: str | None
    trained: list[str]
    expression: str
    formula: str
    front: list[Member]
    evaluations: int
    counts: EvolutionCounts
    ended: Ended
    islands: list[Island]
    stopped: int
    invalid: dict[str, int]
    spaces: dict[str, BootstrapMetrics]


class Source(Document):
    """Where a space's true scores and its inputs are from."""

    benchmark: str
    inputs: dict[str, str]
    lacking: Annotated[
        list[str], Field(description="The datasets that were asked for and that it doesn't have.")
    ]


class EvolveSpaces(Reduced):
    """`autoprox evolve --spaces`."""

    run: str
    expression: str
    formula: str
    folds: list[Fold]
    hold_out: str | None
    objective: str
    ties: str
    spaces: dict[str, Source]
    seconds: float


class Estimated(Document):
    """What a task would take."""

    networks: int
    datasets: int
    seconds: float
    cache: int
    free: int
    stages: dict[str, float]
    text: str


class DryRun(Document):
    """Any task with `--dry-run`."""

    kind: str
    name: str
    estimate: Estimated | None


class Correlations(Document):
    """Three correlations; None where there is none."""

    kendall: Number
    spearman: Number
    pearson: Number


class Intervals(Document):
    """Bootstrap 95 % intervals of three correlations."""

    kendall: Interval
    spearman: Interval
    pearson: Interval


class Ranked(Document):
    """A proxy on a dataset: means over the seeds, and their deviations."""

    proxy: str
    dataset: str
    kendall: Number
    spearman: Number
    pearson: Number
    std: Correlations
    interval: Intervals
    tau_b: Number
    partial_tau: Number
    partial_tau_interval: Interval
    near_size_tau: Number
    near_size_tau_interval: Interval
    regret: list[Number]
    invalid: int
    published: Correlations


class BestKnown(Document):
    """The proxy that is best on the training part, and what it is worth on the test part."""

    proxy: str
    train: float
    test: Sized


class Chosen(Document):
    """Which proxy would be chosen on a training part."""

    train: int
    test: int
    by: dict[str, BestKnown]


class Beside(Document):
    """A published correlation beside ours."""

    ours: Number
    published: float


class PublishedRow(Document):
    """A proxy's correlations beside those of a paper."""

    proxy: str
    dataset: str
    source: str
    same_networks: bool
    kendall: Beside | None = None
    spearman: Beside | None = None
    pearson: Beside | None = None


class Published(Document):
    """What papers report, and the proxies of which none does."""

    rows: list[PublishedRow]
    without: list[str]


class EvolvedOn(Document):
    """The networks that a proxy was evolved on, and how well it ranks the others."""

    networks: int
    others: int
    on_others: Annotated[
        Sized | None, Field(description="Means over the datasets; null of fewer than two others.")
    ]


class Rank(Reduced):
    """`autoprox rank`."""

    run: str
    rows: list[Ranked]
    means: dict[str, Sized]
    comparison: dict[str, Comparison]
    baselines: dict[str, Table]
    baseline_means: dict[str, Sized]
    size: dict[str, SizeCheck]
    budgets: dict[str, Budgets]
    pairs: int
    chosen: Chosen | None
    choices_alone: list[str]
    evolved_on: dict[str, EvolvedOn] = Field(
        default_factory=dict, description="Proxies evolved on some of these networks."
    )
    invalid: dict[str, dict[str, str]] | dict[str, Any]
    benchmark: str
    networks: int
    seeds: int
    ties: str
    seconds: float
    published: Published | None = None


class Compare(Rank):
    """`autoprox compare`."""

    between: Annotated[
        dict[str, dict[str, Number]], Field(description="Taus of the proxies with each other.")
    ]
