"""The configuration of S3, which searches the search space."""

from typing import Annotated

from annotated_types import Gt

from autoprox.configurations.shared_options import (
    PROBLEM,
    STRATEGY,
    FlopsRange,
    ParamsRange,
    SpreadOptions,
    TaskConfig,
    TrainingImages,
)
from autoprox.configurations.supernets import TRAINING, Share, TrainingOptions
from autoprox.declared_options import Option, Positive, Probability


class S3Config(SpreadOptions, TrainingOptions, TaskConfig):
    """What the search of a search space depends on, and what it may use."""

    kind = "s3"
    task = "autoprox.commands.search_space:S3"
    noun = "a search of the search space"

    space: Annotated[str, Option("Search space to begin with; needed.", PROBLEM)]
    images: TrainingImages
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    limit: Annotated[
        Positive | None,
        Option("Held-out images at most, of all classes alike.", PROBLEM, default="all"),
    ] = None
    rounds: Annotated[
        Positive,
        Option("Spaces that are trained and measured; all but the last evolve.", STRATEGY),
    ] = 3
    samples: Annotated[
        Positive, Option("Random architectures by which a space is measured.", STRATEGY)
    ] = 1000
    top: Annotated[Positive, Option("Of them, those in the top-tier error.", STRATEGY)] = 50
    tau: Annotated[
        float, Gt(0),
        Option("Percent of error by which an option must change it to move a step.", STRATEGY),
    ] = 0.4  # fmt: skip
    population: Annotated[Positive, Option("Of the search in the last space.", STRATEGY)] = 50
    generations: Annotated[Positive, Option("Of the search.", STRATEGY)] = 20
    parents: Annotated[Positive, Option("The best, of which children are made.", STRATEGY)] = 10
    mutate_stage: Annotated[
        Probability, Option("With which a depth or a dimension is drawn anew.", STRATEGY)
    ] = 0.2
    mutate_block: Annotated[Probability, Option("With which a block is drawn anew.", STRATEGY)] = (
        0.4
    )
    drop_path: Annotated[Share, Option("Stochastic depth of the last block.", TRAINING)] = 0.2
