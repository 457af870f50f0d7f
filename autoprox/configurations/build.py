"""The configuration of `bench build`."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator

from autoprox.configurations.shared_options import PROBLEM, Range, SpreadOptions, TaskConfig
from autoprox.declared_options import Many, Names, Option, Paths, PathText, Positive
from autoprox.files.human_readable import parse_range


class BuildConfig(SpreadOptions, TaskConfig):
    """The options of `bench build`."""

    kind = "build"
    task = "autoprox.commands.build_benchmark:Build"
    noun = "a benchmark"

    space: Annotated[str, Option("Search space to sample; needed.", PROBLEM)]
    out: Annotated[
        PathText,
        Option("Table to write; needed. Results are collected in FILE.parts.", PROBLEM, "FILE"),
    ]
    images: Annotated[
        Paths,
        Option(
            "Dataset to train on: a folder with one for each class, .npz, IDX or CIFAR binary "
            "files. Repeat it for more datasets.",
            PROBLEM, "PATH", "none", repeated=True,
        ),
    ] = ()  # fmt: skip
    text: Annotated[
        Paths,
        Option(
            "Dataset to train language models on: a text file, read byte by byte. Repeat it for "
            "more datasets.",
            PROBLEM, "FILE", "none", repeated=True,
        ),
    ] = ()  # fmt: skip
    samples: Annotated[Many, Option("Architectures to train.", PROBLEM)] = 64
    sizes: Annotated[
        Range,
        AfterValidator(partial(parse_range, "sizes")),
        Option(
            "Parameters of the architectures, spread evenly over the bands: 12K:48K.",
            PROBLEM, "LOW:HIGH", "any", read=str,
        ),
    ] = (None, None)  # fmt: skip
    bands: Annotated[
        Positive | None,
        Option(
            "Bands of sizes, of equal width on a log scale; at most --samples.",
            PROBLEM,
            default="8",
        ),
    ] = None
    seeds: Annotated[
        Positive, Option("Trainings of each architecture on each dataset.", PROBLEM)
    ] = 2
    epochs: Annotated[
        Positive,
        Option("Passes over the data; incomplete last batches are left out.", PROBLEM),
    ] = 8
    teacher: Annotated[
        str | None,
        Option(
            "Distil from the network that this function returns for a dataset and its classes.",
            PROBLEM, "MODULE:FUNCTION", "none", code=True,
        ),
    ] = None  # fmt: skip
    mirror: Annotated[
        Names,
        Option(
            "Dataset whose images are mirrored at random. Repeat it for more.",
            PROBLEM, "DATASET", "none", repeated=True,
        ),
    ] = ()  # fmt: skip
