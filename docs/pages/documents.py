"""The documents that `--json` prints, as models; file formats that the package reads are its own.

A key of a document that isn't here is an error of the test that runs every command.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from autoprox.files.documents import Document

Number = float | None  # None where it isn't finite, or can't be known
Interval = tuple[Number, Number]
ByDataset = dict[str, float]
Arch = Annotated[dict[str, Any], Field(description="The choices of the space, by name.")]


class Sized(Document):
    """What is left of a tau at equal size, with bootstrap 95 % intervals."""

    kendall: Annotated[Number, Field(description="Kendall's tau; ties of scores count nothing.")]
    interval: Interval
    given_size: Annotated[Number, Field(description="Partial tau given the parameter count.")]
    given_size_interval: Interval
    equal_size: Annotated[
        Number, Field(description="Tau over pairs whose parameters differ by less than 10 %.")
    ]
    equal_size_interval: Interval


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


Comparison = dict[str, dict[Literal["kendall", "given_size", "equal_size"], Difference]]


class Zoo(Document):
    """The published proxies that were compared, and the best of them on the training part."""

    compared: list[str]
    best: dict[str, str]
    refused: dict[str, str]


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


class Worth(Document):
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
    given_size: float
    chosen: bool


class Evolve(Worth):
    """`autoprox evolve`."""

    run: str
    objective: str
    ties: str
    front: list[Member]
    evaluations: int
    invalid: dict[str, int]
    inputs: dict[str, str]
    benchmark: str
    seconds: float


class Fold(Document):
    """An evolution on some of the spaces, tested on all."""

    held_out: str | None
    trained: list[str]
    expression: str
    formula: str
    front: list[Member]
    evaluations: int
    stopped: int
    invalid: dict[str, int]
    spaces: dict[str, Worth]


class Source(Document):
    """Where a space's true scores and its inputs are from."""

    benchmark: str
    inputs: dict[str, str]


class EvolveSpaces(Document):
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
    given_size: Number
    given_size_interval: Interval
    equal_size: Number
    equal_size_interval: Interval
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


class Rank(Document):
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


class Candidate(Document):
    """An architecture with its sizes and score."""

    arch: Arch
    params: int
    flops: int
    score: float
    candidate: int
    value: Number = None


class Largest(Document):
    """The largest candidate."""

    candidate: int
    params: int
    flops: int
    score: float


class SizeOfSearch(Document):
    """How far a search's score is size."""

    spearman: Number
    candidates: int
    largest: Largest
    pick_is_largest: bool
    near_largest: int
    top: int


class Evaluated(Document):
    """A candidate with its true score, and what it loses."""

    candidate: int
    value: float
    regret: float


class WorthOfSearch(Document):
    """What the evaluator says of the pick, and of the score."""

    pick: Evaluated | None
    largest: Evaluated | None
    networks: int
    pairs: int
    means: dict[str, Sized]
    comparison: Comparison


class Search(Document):
    """`autoprox search`."""

    run: str
    space: str
    proxy: str
    strategy: str
    weights: str
    objective: str
    best: Candidate
    top: list[Candidate]
    evaluations: int
    size: SizeOfSearch
    worth: WorthOfSearch | None = None
    evaluator: str | None
    evaluated: int
    failed: dict[str, int]
    inputs: str
    seconds: float


class Evidence(Document):
    """How a formula was shown to be the one that was looked for."""

    kind: str
    statement: str
    tau: Number
    deviation: Number


class Target(Document):
    """The proxy that was looked for."""

    source: str
    expression: str


class Rediscover(Document):
    """`autoprox rediscover`."""

    run: str
    success: bool
    evidence: Evidence | None
    expression: str | None
    formula: str | None
    correlation: Number
    target: Target
    seed: int
    rounds: int
    evaluations: int
    seconds: float


class Preferred(Document):
    """An architecture that PreNAS prefers."""

    arch: Arch
    size: int
    params: int
    flops: int
    snip: float
    normalised: float


class Subnet(Document):
    """A subnet with its inherited accuracy."""

    arch: Arch
    params: int
    flops: int
    accuracy: float


class SupernetTrain(Document):
    """`autoprox supernet train`."""

    run: str
    space: str
    dataset: str
    sampler: str
    weights: str
    epochs: int
    loss: float
    subnets: list[Subnet]
    seconds: float


class Prenas(Document):
    """`autoprox prenas`."""

    run: str
    space: str
    normaliser: str
    preferred: list[Preferred]
    file: str
    training: dict[str, Any] | None
    seconds: float


class SupernetEval(Document):
    """`autoprox supernet eval`."""

    run: str
    file: str
    space: str
    dataset: str
    architectures: int
    held_out: int
    lowest: float
    median: float
    highest: float
    seconds: float


class SupernetExtract(Document):
    """`autoprox supernet extract`."""

    file: str
    space: str
    params: int
    flops: int
    classes: int


class Architecture(Document):
    """An architecture: what `supernet extract --arch` and `export arch` read."""

    space: str
    choices: Arch


class Round(Document):
    """A round of S3: the error of the space, and its options."""

    error: float
    expected: float
    top_tier: float
    architectures: int
    options: dict[str, list[float]]
    dropped: dict[str, list[float]]


class BestOfS3(Document):
    """The architecture that was found in the last space."""

    arch: Architecture
    params: int
    flops: int
    accuracy: float
    evaluated: int


class Plots(Document):
    """Files of plots, where matplotlib is installed."""

    options: str | None
    errors: str | None
    reason: str | None = None


class S3(Document):
    """`autoprox s3`."""

    run: str
    space: str
    dataset: str
    rounds: list[Round]
    best: BestOfS3
    plots: Plots
    seconds: float


class BuiltDataset(Document):
    """The scores of a dataset that was trained for."""

    lowest: float
    median: float
    highest: float
    noise_ceiling: Number
    tied: float


class Build(Document):
    """`autoprox bench build`."""

    run: str
    file: str
    name: str
    space: str
    architectures: int
    datasets: dict[str, BuiltDataset]
    measure: str
    seeds: int
    core_hours: float
    failures: list[Any]


class File(Document):
    """A file of a benchmark."""

    file: str
    space: str
    subset: str
    architectures: int
    bytes: int | None
    sha256: str
    status: str
    path: str | None


class Fetched(RootModel[list[File]]):
    """`autoprox bench fetch`."""


class Info(Document):
    """`autoprox bench info`."""

    name: str
    description: str
    spaces: list[str]
    labels: dict[str, dict[str, list[str]]]
    datasets: dict[str, int]
    architectures: int
    licence: str
    source: str
    noise_ceiling: dict[str, float]
    embedded: bool
    installed: bool
    folders: list[str]
    files: list[File]


class Benchmarks(RootModel[list[Info]]):
    """`autoprox bench list`."""


class FoundAt(Document):
    """Where a proxy was found."""

    run: str
    space: str
    benchmark: str
    label: str
    datasets: list[str]
    seed: int


class ShowExpression(Document):
    """`autoprox show` of an expression, a run or a proxy file."""

    expression: str
    formula: str
    latex: str
    type: str
    size: int
    depth: int
    hash: str
    reads: list[str]
    passes: dict[str, str]
    choices_alone: bool
    citation: str | None
    found: FoundAt | None
    taus: dict[str, dict[str, Number]] | None
    summary: dict[str, Any] | None = None


class ShowFunction(Document):
    """`autoprox show` of a function of the zoo."""

    name: str
    formula: str
    rule: str
    passes: str
    citation: str


class Show(RootModel[ShowExpression | ShowFunction]):
    """`autoprox show PROXY`."""


class Overview(Document):
    """A run at a glance."""

    run: str
    kind: str
    benchmark: str | None
    space: str | None
    seed: int | None
    fitness: Number
    test: Number
    expression: str | None
    seconds: Number
    begun: str | None
    ended: bool


class Runs(RootModel[list[Overview]]):
    """`autoprox runs`."""


class Glance(Document):
    """A proxy or a run, one of several."""

    name: str
    run: str | None = None
    kind: str | None = None
    benchmark: str | None = None
    space: str | None = None
    seed: int | None = None
    fitness: Number = None
    test: Number = None
    seconds: Number = None
    begun: str | None = None
    ended: bool | None = None
    settings: dict[str, Any] | None = None
    expression: str | None = None
    formula: str | None = None
    nodes: int | None = None
    depth: int | None = None


class ShowSeveral(RootModel[list[Glance]]):
    """`autoprox show PROXY PROXY`."""


class Numbered(Document):
    """A formula of a run, by its number."""

    number: int
    size: int
    train: Number
    test: Number
    expression: str


class ShowAll(RootModel[list[Numbered]]):
    """`autoprox show RUN --all`."""


class Operation(Document):
    """An operation of the language."""

    name: str
    kind: str
    types: list[str]
    formula: str
    latex: str
    rule: str


class ShowOperations(RootModel[list[Operation]]):
    """`autoprox show --operations`."""


class CacheFacts(Document):
    """The cache."""

    folder: str
    bytes: int
    files: int
    parts: dict[str, int]
    oldest: str | None
    limit: int
    writable: bool


class Cache(CacheFacts):
    """`autoprox cache`."""

    removed: int


class Place(Document):
    """A folder."""

    folder: str
    writable: bool


class Doctor(Document):
    """`autoprox doctor`."""

    python: str
    packages: dict[str, str]
    platform: str
    device: str
    threads: int
    benchmarks: dict[str, bool]
    cache: CacheFacts
    runs: Place


class Model(Document):
    """A model with its score."""

    model: str
    score: Number
    terms: dict[str, Number]
    params: int
    family: str | None
    layers: dict[str, str]
    inputs: str


class Score(Document):
    """`autoprox score`."""

    proxy: str
    ranks: bool
    models: list[Model]


class ExportArch(Document):
    """`autoprox export arch`."""

    architecture: Architecture
    params: int
    target: str
    out: str | None
    files: list[str]


class ExportProxy(Document):
    """`autoprox export proxy`."""

    proxy: str
    to: str
    out: str | None
    text: str


class Report(Document):
    """`autoprox report`."""

    file: str
    format: str
    runs: list[str]


class ScoredCandidate(Document):
    """A line of `candidates.jsonl`: an architecture that a search scored."""

    arch: Arch
    params: int
    flops: int
    terms: list[Number]
    failure: str | None
    score: Number


class Environment(Document):
    """`environment.json` of a run."""

    command: list[str]
    python: str
    packages: dict[str, str]
    platform: str
    instructions: str
    commit: str | None
    device: str
    threads: int
    read: dict[str, str]
    summary: str | None = None
    forced: list[list[str]] | None = None
