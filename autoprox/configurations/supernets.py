"""The configurations of the commands that train or use supernets."""

from typing import Annotated

from annotated_types import Ge, Gt, Lt
from pydantic import AfterValidator

from autoprox.configurations.shared_options import (
    MACHINE,
    PROBLEM,
    STRATEGY,
    DeviceOptions,
    FlopsRange,
    ParamsRange,
    SpreadOptions,
    TaskConfig,
    TrainingImages,
)
from autoprox.declared_options import Option, PathText, Positive, Probability, Whole
from autoprox.files.human_readable import parse_series

TRAINING = "Training"

Share = Annotated[float, Ge(0), Lt(1)]
NotNegative = Annotated[float, Ge(0)]
HeldOutLimit = Annotated[
    Positive | None,
    Option("Use at most this many held-out images, balanced over classes.", PROBLEM, default="all"),
]


class TrainingOptions(DeviceOptions):
    """The options of training a supernet."""

    epochs: Annotated[
        Positive,
        Option("Passes over the images; incomplete last batches are left out.", TRAINING),
    ] = 8
    batch_size: Annotated[Positive, Option("Images of a step, of all processes.", TRAINING)] = 64
    learning_rate: Annotated[
        float, Gt(0), Option("Highest learning rate of AdamW.", TRAINING)
    ] = 1e-3  # fmt: skip
    final_rate: Annotated[
        NotNegative, Option("Last learning rate, reached along a cosine.", TRAINING)
    ] = 1e-5
    warmup: Annotated[
        Share, Option("Share of the steps until the highest learning rate.", TRAINING)
    ] = 0.05
    weight_decay: Annotated[NotNegative, Option("Weight decay of layers.", TRAINING)] = 0.05
    label_smoothing: Annotated[Share, Option("Label smoothing over all classes.", TRAINING)] = 0.1
    drop_path: Annotated[Share, Option("Stochastic depth of the last block.", TRAINING)] = 0.1
    crop: Annotated[Whole, Option("Pixels by which images are shifted.", TRAINING)] = 2
    mirror: Annotated[bool, Option("Mirror half of the images.", TRAINING)] = False
    repeats: Annotated[
        Positive,
        Option(
            "How often an image is in a batch, augmented differently each time; an epoch has "
            "fewer images by this factor.",
            TRAINING,
        ),
    ] = 1
    mixup: Annotated[NotNegative, Option("Parameter of mixup; 0: none.", TRAINING)] = 0.0
    cutmix: Annotated[NotNegative, Option("Parameter of cutmix; 0: none.", TRAINING)] = 0.0
    erasing: Annotated[Share, Option("Probability of random erasing.", TRAINING)] = 0.0
    processes: Annotated[
        Positive, Option("Processes that train together, each on a GPU or the CPU.", MACHINE)
    ] = 1


RECIPE = tuple(
    name for name in TrainingOptions.model_fields if name not in ("processes", "device", "mirror")
)


class SupernetTrainConfig(TrainingOptions, TaskConfig):
    """The options of `supernet train`."""

    kind = "supernet-train"
    task = "autoprox.commands.supernet:SupernetTrain"
    noun = "a supernet"

    space: Annotated[str, Option("Search space; needed.", PROBLEM)]
    images: TrainingImages
    sampler: Annotated[
        str,
        Option(
            "Subnets of a step. uniform: one of the space; sandwich: the largest, the smallest and "
            "two others; preferred: one of --subnets; single: the one of --subnets.",
            PROBLEM,
        ),
    ] = "uniform"
    subnets: Annotated[
        PathText | None,
        Option("Their choices, as in preferred.json and top.json.", PROBLEM, "FILE", "none"),
    ] = None


class SupernetEvalConfig(SpreadOptions, TaskConfig):
    """The options of `supernet eval`."""

    kind = "supernet-eval"
    task = "autoprox.commands.supernet:SupernetEval"
    noun = "an evaluation"

    supernet: Annotated[PathText, Option("The run that trained it.", argument=True, metavar="RUN")]
    samples: Annotated[Positive, Option("Random subnets to evaluate.", PROBLEM)] = 64
    images: Annotated[
        PathText | None,
        Option("Evaluate on held-out images of these.", PROBLEM, "PATH", "those of the training"),
    ] = None
    limit: HeldOutLimit = None


class PrenasConfig(TrainingOptions, TaskConfig):
    """The options of `prenas`."""

    kind = "prenas"
    task = "autoprox.commands.prenas:Prenas"
    noun = "a selection"

    space: Annotated[str, Option("Search space; needed.", PROBLEM)]
    sizes: Annotated[
        str,
        AfterValidator(lambda text: parse_series("sizes", text) and text),
        Option(
            "Parameter counts below each of which some are preferred; needed.",
            PROBLEM,
            "LOW:HIGH:STEP",
        ),
    ]
    per_size: Annotated[
        Positive,
        Option("Architectures preferred below each size; they may overlap.", PROBLEM),
    ] = 1
    normaliser: Annotated[
        str,
        Option(
            "How isomers are compared: paper (eq. 13), or released: as in the authors' code, with "
            "its random weights of AutoFormer's supernets.",
            PROBLEM,
        ),
    ] = "paper"
    dataset: Annotated[
        str, Option("Dataset that sets the number of classes, unless --train is given.", PROBLEM)
    ] = "imagenet"
    noise: Annotated[Positive, Option("Gaussian noise images to score on.", PROBLEM)] = 64
    train: Annotated[
        PathText | None,
        Option("Images to train the preferred architectures on.", PROBLEM, "PATH", "none"),
    ] = None


class S3Config(SpreadOptions, TrainingOptions, TaskConfig):
    """The options of `s3`, the search of a search space."""

    kind = "s3"
    task = "autoprox.commands.s3:S3Search"
    noun = "a search of the search space"

    space: Annotated[str, Option("Search space to begin with; needed.", PROBLEM)]
    images: TrainingImages
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    limit: HeldOutLimit = None
    rounds: Annotated[
        Positive,
        Option("Spaces that are trained and measured; all but the last evolve.", STRATEGY),
    ] = 3
    samples: Annotated[Positive, Option("Random architectures that measure a space.", STRATEGY)] = (
        1000
    )
    top: Annotated[Positive, Option("Best of these, for the top-tier error.", STRATEGY)] = 50
    tau: Annotated[
        float, Gt(0), Option("Change of the error, in percent, that moves options.", STRATEGY)
    ] = 0.4  # fmt: skip
    population: Annotated[
        Positive, Option("Population of the search in the last space.", STRATEGY)
    ] = 50
    generations: Annotated[Positive, Option("Generations of this search.", STRATEGY)] = 20
    parents: Annotated[Positive, Option("Best architectures, the parents.", STRATEGY)] = 10
    mutate_stage: Annotated[
        Probability, Option("Probability that a depth or a dimension mutates.", STRATEGY)
    ] = 0.2
    mutate_block: Annotated[Probability, Option("Probability that a block mutates.", STRATEGY)] = (
        0.4
    )
    drop_path: Annotated[Share, Option("Stochastic depth of the last block.", TRAINING)] = 0.2
