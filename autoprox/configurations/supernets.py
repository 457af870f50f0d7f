"""The configurations of what is done with supernets."""

from typing import Annotated

from annotated_types import Ge, Gt, Lt
from pydantic import AfterValidator

from autoprox.configurations.shared_options import (
    MACHINE,
    PROBLEM,
    DeviceOptions,
    SpreadOptions,
    TaskConfig,
    TrainingImages,
)
from autoprox.declared_options import Option, PathText, Positive, Whole
from autoprox.files.human_readable import parse_series

TRAINING = "Training"

Share = Annotated[float, Ge(0), Lt(1)]
NotNegative = Annotated[float, Ge(0)]
Rate = Annotated[float, Gt(0)]


class TrainingOptions(DeviceOptions):
    """How a supernet is trained: the recipe, and on how many processes."""

    epochs: Annotated[
        Positive,
        Option("Passes over the images, without those that fill no last batch.", TRAINING),
    ] = 8
    batch_size: Annotated[Positive, Option("Images of a step, of all processes.", TRAINING)] = 64
    learning_rate: Annotated[Rate, Option("The highest, of AdamW.", TRAINING)] = 1e-3
    final_rate: Annotated[NotNegative, Option("The last; a cosine leads there.", TRAINING)] = 1e-5
    warmup: Annotated[Share, Option("Part of the steps until the highest rate.", TRAINING)] = 0.05
    weight_decay: Annotated[NotNegative, Option("Of the weights of layers.", TRAINING)] = 0.05
    label_smoothing: Annotated[Share, Option("Spread over all classes.", TRAINING)] = 0.1
    drop_path: Annotated[Share, Option("Stochastic depth of the last block.", TRAINING)] = 0.1
    crop: Annotated[Whole, Option("Pixels by which images are moved.", TRAINING)] = 2
    mirror: Annotated[bool, Option("Mirror half of the images.", TRAINING)] = False
    repeats: Annotated[
        Positive,
        Option(
            "How often an image is in a batch, each time varied; an epoch has so many times fewer.",
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
    """What the training of a supernet depends on, and what it may use."""

    kind = "supernet-train"
    task = "autoprox.commands.supernet_train:SupernetTrain"
    noun = "a supernet"

    space: Annotated[str, Option("Search space; needed.", PROBLEM)]
    images: TrainingImages
    sampler: Annotated[
        str,
        Option(
            "Subnets of a step. uniform: one of the space; sandwich: the largest, the smallest and "
            "two; preferred: one of --subnets; single: the one of --subnets.",
            PROBLEM,
        ),
    ] = "uniform"
    subnets: Annotated[
        PathText | None,
        Option("Their choices, as preferred.json and top.json have them.", PROBLEM, "FILE", "none"),
    ] = None


class SupernetEvalConfig(SpreadOptions, TaskConfig):
    """What the evaluation of subnets depends on, and what it may use."""

    kind = "supernet-eval"
    task = "autoprox.commands.supernet_eval:SupernetEval"
    noun = "an evaluation"

    supernet: Annotated[PathText, Option("The run of its training.", argument=True, metavar="RUN")]
    samples: Annotated[Positive, Option("Random subnets to evaluate.", PROBLEM)] = 64
    images: Annotated[
        PathText | None,
        Option("Their held-out images are used.", PROBLEM, "PATH", "those of the training"),
    ] = None
    limit: Annotated[
        Positive | None,
        Option("Held-out images at most, of all classes alike.", PROBLEM, default="all"),
    ] = None


class PrenasConfig(TrainingOptions, TaskConfig):
    """What PreNAS depends on, and what it may use."""

    kind = "prenas"
    task = "autoprox.commands.prenas:Prenas"
    noun = "a selection"

    space: Annotated[str, Option("Search space; needed.", PROBLEM)]
    sizes: Annotated[
        str,
        AfterValidator(lambda text: parse_series("sizes", text) and text),
        Option("Parameters: those preferred have fewer; needed.", PROBLEM, "LOW:HIGH:STEP"),
    ]
    per_size: Annotated[
        Positive,
        Option("How many are preferred for each size; some of them for several sizes.", PROBLEM),
    ] = 1
    normaliser: Annotated[
        str,
        Option(
            "What compares isomers: of the paper (eq. 13), or of the code that was released, whose "
            "draws of AutoFormer's supernets it takes, too.",
            PROBLEM,
        ),
    ] = "paper"
    dataset: Annotated[
        str, Option("Whose number of classes the heads have, unless --train is given.", PROBLEM)
    ] = "imagenet"
    noise: Annotated[Positive, Option("Gaussian images that the scores are of.", PROBLEM)] = 64
    train: Annotated[
        PathText | None,
        Option("Images to train the supernet on, for those preferred.", PROBLEM, "PATH", "none"),
    ] = None


SUPERNET_CONFIGURATIONS: tuple[type[TaskConfig], ...] = (
    SupernetTrainConfig,
    SupernetEvalConfig,
    PrenasConfig,
)
