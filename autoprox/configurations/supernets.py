"""The configurations of the commands that train or use supernets."""

from functools import partial
from typing import Annotated

from annotated_types import Ge, Gt, Lt
from pydantic import AfterValidator

from autoprox.configurations.shared_options import (
    DeviceOptions,
    FlopsRange,
    MachineOption,
    ParamsRange,
    SpaceText,
    SpreadOptions,
    StrategyOption,
    TaskConfig,
    TrainingImages,
)
from autoprox.declared_options import GENERAL, Option, PathText, Positive, Probability, Whole
from autoprox.files.human_readable_sizes import parse_series

TrainingOption = partial(Option, group="Training")

Share = Annotated[float, Ge(0), Lt(1)]
NotNegative = Annotated[float, Ge(0)]
DropPath = Annotated[Share, TrainingOption("Stochastic depth of the last block.")]
HeldOutLimit = Annotated[
    Positive | None,
    Option("Use at most this many held-out images, balanced over classes.", default="all"),
]


class TrainingOptions(DeviceOptions):
    """The options of training a supernet."""

    epochs: Annotated[
        Positive, TrainingOption("Passes over the images; incomplete last batches are dropped.")
    ] = 8
    batch_size: Annotated[Positive, TrainingOption("Images in each step, over all processes.")] = 64
    learning_rate: Annotated[float, Gt(0), TrainingOption("Highest learning rate of AdamW.")] = 1e-3
    final_rate: Annotated[
        NotNegative, TrainingOption("Final learning rate of the cosine schedule.")
    ] = 1e-5
    warmup: Annotated[Share, TrainingOption("Share of the steps for the warm-up.")] = 0.05
    weight_decay: Annotated[NotNegative, TrainingOption("Weight decay of layers.")] = 0.05
    label_smoothing: Annotated[Share, TrainingOption("Label smoothing over all classes.")] = 0.1
    drop_path: DropPath = 0.1
    crop: Annotated[Whole, TrainingOption("Most pixels by which images are shifted.")] = 2
    mirror: Annotated[bool, TrainingOption("Mirror half of the images.")] = False
    repeats: Annotated[
        Positive,
        TrainingOption(
            "Copies of each image in a batch, augmented differently; an epoch has fewer images "
            "by this factor."
        ),
    ] = 1
    mixup: Annotated[NotNegative, TrainingOption("Parameter of mixup; 0 turns it off.")] = 0.0
    cutmix: Annotated[NotNegative, TrainingOption("Parameter of cutmix; 0 turns it off.")] = 0.0
    erasing: Annotated[Share, TrainingOption("Probability of random erasing.")] = 0.0
    processes: Annotated[
        Positive, MachineOption("Processes that train together, each on a GPU or the CPU.")
    ] = 1


RECIPE = tuple(
    name for name in TrainingOptions.model_fields if name not in ("processes", "device", "mirror")
)


class SupernetTrainConfig(TrainingOptions, TaskConfig):
    """Train a supernet, whose subnets inherit its weights.

    Each step trains the subnets that the sampler draws. Weights are saved after
    every epoch; `autoprox resume` continues a stopped training.
    """

    kind = "supernet-train"
    task = "autoprox.commands.supernet:SupernetTrainTask"
    noun = "a supernet"
    examples = (
        "supernet train --space autoformer-nano --images photos",
        "supernet train --space autoformer-nano --images photos --sampler sandwich --epochs 30",
        "supernet train --space swin-nano --images photos --sampler preferred --subnets top.json",
    )

    space: SpaceText
    images: TrainingImages
    sampler: Annotated[
        str,
        Option(
            "Subnets that each step trains. uniform: a random one; sandwich: the largest, the "
            "smallest and two random ones; preferred: one of --subnets; single: the one of "
            "--subnets.",
            choices=("uniform", "sandwich", "preferred", "single"),
        ),
    ] = "uniform"
    subnets: Annotated[
        PathText | None,
        Option("Architectures to draw, as in preferred.json and top.json.", "FILE", "none"),
    ] = None


class SupernetEvalConfig(SpreadOptions, TaskConfig):
    """Evaluate random subnets with the weights that they inherit.

    The result is a benchmark for `evolve --benchmark` and `rank`.
    """

    kind = "supernet-eval"
    task = "autoprox.commands.supernet:SupernetEvalTask"
    noun = "an evaluation"
    examples = (
        "supernet eval runs/20260102T030405Z-mine --samples 1000",
        "supernet eval runs/20260102T030405Z-mine --images other-photos",
        "supernet eval runs/20260102T030405Z-mine --limit 500 --workers 4",
    )

    supernet: Annotated[
        PathText, Option("The run that trained the supernet.", "RUN", group=GENERAL, argument=True)
    ]
    samples: Annotated[Positive, Option("Random subnets to evaluate.")] = 64
    images: Annotated[
        PathText | None,
        Option("Images of which the held-out part is used.", "PATH", "those of the training"),
    ] = None
    limit: HeldOutLimit = None


class PrenasConfig(TrainingOptions, TaskConfig):
    """Choose architectures before any training, as PreNAS does, and train them in one supernet.

    One random supernet scores all isomers; below each size the one with the
    highest saliency is preferred. With --images, the supernet is trained on the
    preferred architectures alone.
    """

    kind = "prenas"
    task = "autoprox.commands.prenas:PrenasTask"
    noun = "a selection"
    examples = (
        "prenas --space autoformer-supernet-ti --sizes 5M:12M:1M",
        "prenas --space autoformer-nano --sizes 20K:60K:10K --images photos",
        "prenas --space autoformer-supernet-ti --sizes 6M:8M:1M --normaliser released",
    )

    space: SpaceText
    sizes: Annotated[
        str,
        AfterValidator(lambda text: parse_series("sizes", text) and text),
        Option(
            "Parameter counts below each of which architectures are preferred.", "LOW:HIGH:STEP"
        ),
    ]
    per_size: Annotated[
        Positive, Option("Architectures preferred below each size; they may overlap.")
    ] = 1
    normaliser: Annotated[
        str,
        Option(
            "How isomers are compared: paper (eq. 13), or released: as in the authors' code, with "
            "its random weights of AutoFormer's supernets.",
            choices=("paper", "released"),
        ),
    ] = "paper"
    dataset: Annotated[
        str | None,
        Option(
            "Dataset that sets the number of classes, unless --images are given.",
            default="10 classes for images of up to 32 pixels, else imagenet",
        ),
    ] = None
    noise: Annotated[Positive, Option("Gaussian noise images to score on.")] = 64
    images: Annotated[
        PathText | None,
        Option("Images to train the preferred architectures on.", "PATH", "none"),
    ] = None


class S3Config(SpreadOptions, TrainingOptions, TaskConfig):
    """Search the search space, then search it for the best network.

    In each round a supernet of the space is trained, random networks are measured
    with its weights, and the options of every dimension and stage move towards
    less error. `autoprox resume` continues a stopped run.
    """

    kind = "s3"
    task = "autoprox.commands.s3_space_search:S3Task"
    noun = "a search of the search space"
    examples = (
        "s3 --space swin-nano --images photos --rounds 3",
        "s3 --space swin-nano --images photos --flops :4M --epochs 20",
        "s3 --space swin-nano --images photos --samples 200 --threshold 0.2",
    )

    space: Annotated[str, Option("Search space to start with.")]
    images: TrainingImages
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    limit: HeldOutLimit = None
    rounds: Annotated[
        Positive,
        StrategyOption(
            "Number of spaces that are trained and measured, each evolved from the one before."
        ),
    ] = 3
    samples: Annotated[
        Positive, StrategyOption("Random architectures by which each space is measured.")
    ] = 1000
    top_tier: Annotated[
        Positive, StrategyOption("The best of these, whose mean error is the top-tier error.")
    ] = 50
    threshold: Annotated[
        float,
        Gt(0),
        StrategyOption("Change of the error, in percent, that moves options (tau in the paper)."),
    ] = 0.4
    population: Annotated[
        Positive, StrategyOption("Population of the search in the last space.")
    ] = 50
    generations: Annotated[Positive, StrategyOption("Generations of this search.")] = 20
    parents: Annotated[Positive, StrategyOption("Parents: the best architectures.")] = 10
    mutate_stage: Annotated[
        Probability, StrategyOption("Probability that a depth or a dimension mutates.")
    ] = 0.2
    mutate_block: Annotated[Probability, StrategyOption("Probability that a block mutates.")] = 0.4
    drop_path: DropPath = 0.2
