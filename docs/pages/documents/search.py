"""Of search, rediscover, supernets, PreNAS, S3 and bench build."""

from typing import Annotated, Any

from pydantic import Field

from autoprox.files.json_documents import Document

from .worth import Comparison, Number, Reduced, Sized

Arch = Annotated[dict[str, Any], Field(description="The choices of the space, by name.")]


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


class Search(Reduced):
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


class Rediscover(Reduced):
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


class SupernetTrain(Reduced):
    """`autoprox supernet train`."""

    run: str
    space: str
    dataset: str
    sampler: str
    images: int
    images_per_epoch: int
    steps: int
    weights: str
    epochs: int
    loss: float
    subnets: list[Subnet]
    seconds: float


class PreferredBelow(Document):
    """The architectures that are preferred below a size, by their numbers from 1 on."""

    size: int
    asked: int
    found: int
    preferred: list[int]


class Prenas(Reduced):
    """`autoprox prenas`."""

    run: str
    space: str
    normaliser: str
    preferred: list[Preferred]
    sizes: list[PreferredBelow]
    file: str
    training: dict[str, Any] | None
    seconds: float


class SupernetEval(Reduced):
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
    samples: Annotated[int, Field(description="The architectures that were asked for.")]
    options: dict[str, list[float]]
    options_measured: int
    dropped: dict[str, list[float]]


class BestOfS3(Document):
    """The architecture that was found in the last space."""

    arch: Architecture
    params: int
    flops: int
    accuracy: float
    asked: Annotated[int, Field(description="The evaluations that were asked for.")]
    evaluated: int
    generations: Annotated[list[int], Field(description="The evaluations of each generation.")]


class Plots(Document):
    """Files of plots, where matplotlib is installed."""

    options: str | None
    errors: str | None
    reason: str | None = None


class S3(Reduced):
    """`autoprox s3`."""

    run: str
    space: str
    dataset: str
    classes: int
    rounds: list[Round]
    ended: str | None
    best: BestOfS3
    plots: Plots
    seconds: float


class BuiltDataset(Document):
    """The scores of a dataset that was trained for."""

    lowest: float
    median: float
    highest: float
    noise_ceiling: Number
    reliability: Number
    tied: float


class Build(Reduced):
    """`autoprox bench build`."""

    run: str
    file: str
    name: str
    space: str
    samples: Annotated[int, Field(description="The architectures that were asked for.")]
    architectures: int
    datasets: dict[str, BuiltDataset]
    measure: str
    seeds: int
    core_hours: float
    failures: list[Any]


class ScoredCandidate(Document):
    """A line of `candidates.jsonl`: an architecture that a search scored."""

    arch: Arch
    params: int
    flops: int
    terms: list[Number]
    failure: str | None
    score: Number
