"""Options that several commands share."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge, Le
from pydantic import AfterValidator

from autoprox.declared_options import GENERAL, Names, Option, Options, PathText, Positive, Whole
from autoprox.errors import ConfigError, nearest
from autoprox.files.human_readable_sizes import parse_bytes, parse_days, parse_range
from autoprox.progress import Progress

MOST_WORKERS = 1_024
MOST_SAMPLES = 65_536
BACKENDS = ("local", "dask")
FRESH, SHARED, INHERITED = "fresh", "shared", "inherited"
WEIGHTS = (FRESH, SHARED)
DEFAULT_WEIGHTS = FRESH
ADDRESS = re.compile(r"(t(cp|ls)://)?([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}")

StrategyOption = partial(Option, group="Strategy")
MachineOption = partial(Option, group="Machine")
Resource = partial(MachineOption, resource=True)

RangeText = str | Sequence[int | None] | None
ParamsRange = Annotated[
    RangeText,
    AfterValidator(partial(parse_range, "params")),
    Option("Range of the parameter count: 10M:40M, 5M: or :6M.", "LOW:HIGH", "any", str),
]
FlopsRange = Annotated[
    RangeText,
    AfterValidator(partial(parse_range, "flops")),
    Option("Range of the multiply-accumulates for one input: 1.2G:2G.", "LOW:HIGH", "any", str),
]
TrainingImages = Annotated[
    PathText,
    Option(
        "Images to train on: a folder with one for each class, .npz, IDX or CIFAR binary files.",
        "PATH",
    ),
]
SpaceText = Annotated[str, Option("Search space.")]
Seeds = Annotated[
    Positive, Option("Number of seeds, starting at --seed, for the weights and the noise.")
]


def names(text: str) -> tuple[str, ...]:
    """Split a list at its commas, except for commas inside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts)


def read_address(text: str | None) -> str | None:
    """Check the address of a scheduler: HOST:PORT, or with tcp:// or tls:// in front."""
    if text is not None and not ADDRESS.fullmatch(text):
        rule = "scheduler must be HOST:PORT, for example tcp://10.0.0.1:8786"
        raise ConfigError(f"{rule}, but got {text!r}")
    return text


class CommandConfig(Options):
    """The options of a command; a subclass's docstring is its help."""

    examples: ClassVar[tuple[str, ...]]
    common: ClassVar[tuple[str, ...]] = ()  # what --help shows, in this order; none: all options


class TaskConfig(CommandConfig):
    """The options of every command that makes a run."""

    kind: ClassVar[str]
    task: ClassVar[str]  # package.module:class, imported when a run begins

    runs: Annotated[
        PathText,
        Option("Folder in which the run's folder is created.", "DIR", group=GENERAL, stored=False),
    ] = "runs"
    name: Annotated[
        str | None,
        Option(
            "End of the folder's name.", None, "the task and the seed",
            group=GENERAL, stored=False,
        ),
    ] = None  # fmt: skip
    progress: Annotated[
        Progress | bool,
        Option(
            "Whether to show a panel, or a function of (task, done, total, note) to call.",
            listed=False, stored=False,
        ),
    ] = True  # fmt: skip
    seed: Annotated[Whole, Option("Seed of the random numbers; a split has its own.")] = 0
    workers: Annotated[
        Positive,
        Le(MOST_WORKERS),
        Resource("Threads, or processes of a build; they don't change the results."),
    ] = 2


class SpreadOptions(Options):
    """The options of tasks that several machines can share."""

    backend: Annotated[
        str,
        Resource(
            "local: this machine alone; dask: also the workers of --scheduler.", choices=BACKENDS
        ),
    ] = "local"
    scheduler: Annotated[
        str | None,
        AfterValidator(read_address),
        Resource("Address of dask's scheduler.", "HOST:PORT", "none"),
    ] = None


class DeviceOptions(Options):
    """The device that measures networks."""

    device: Annotated[
        str,
        MachineOption(
            "auto (CUDA, else MPS, else the CPU), cpu, cuda or mps.",
            choices=("auto", "cpu", "cuda", "mps"),
        ),
    ] = "auto"


class CacheOptions(Options):
    """The cache of statistics, and its limits."""

    cache: Annotated[
        PathText | None,
        Resource(
            "Folder of measured statistics, for later runs. A URL that fsspec can open, such as "
            "s3://bucket/folder, is shared by machines and copied to the user's cache.",
            "DIR|URL", "the user's",
        ),
    ] = None  # fmt: skip
    cache_limit: Annotated[
        Whole | None,
        Resource(
            "Largest size of that folder, not counting what this run needs; the least recently "
            "used files are removed.",
            "SIZE", "$AUTOPROX_CACHE_LIMIT, then 20GiB", parse_bytes,
        ),
    ] = None  # fmt: skip
    cache_age: Annotated[
        Positive | None,
        Resource(
            "Days after which unused files are removed.",
            "DAYS", "$AUTOPROX_CACHE_AGE, then 90", parse_days,
        ),
    ] = None  # fmt: skip


class DataOptions(Options):
    """The folder of the benchmarks' files."""

    data_dir: Annotated[
        PathText | None,
        Option("Folder of the benchmarks' files.", "DIR", "$AUTOPROX_DATA, then the user's cache"),
    ] = None


class BenchmarkOptions(DataOptions):
    """Architectures and their true scores."""

    benchmark: Annotated[
        PathText | None,
        Option(
            "Benchmark: a built-in one, or a JSON table of your own.",
            "NAME|FILE",
            "the first that fits",
        ),
    ] = None
    space: Annotated[str | None, Option("Search space.", default="the benchmark's first")] = None
    datasets: Annotated[
        Names | None, Option("Datasets to rank on.", "A,B,C", "all there are", names)
    ] = None
    label: Annotated[
        str | None, Option("Which true scores to use.", default="the space's first")
    ] = None
    subset: Annotated[
        str, Option("Which architectures to use: main, extra, all, or a range such as 5M-7M.")
    ] = "main"
    networks: Annotated[
        Positive | None,
        Option(
            "Number of these architectures to use, at least 10; they are drawn at random, but "
            "are the same with every seed.",
            default="all",
        ),
    ] = None


class ScoringOptions(Options):
    """How correlations are computed."""

    ties: Annotated[
        str,
        Option(
            "How tied scores count: unordered, or tau-b (as in the papers).",
            choices=("unordered", "tau-b"),
        ),
    ] = "unordered"


class WeightOptions(Options):
    """How the weights of untrained networks are drawn."""

    weights: Annotated[
        str,
        Option(
            "How initial weights are drawn: fresh for each network, or shared, as slices of one "
            "draw for all networks.",
            choices=WEIGHTS,
        ),
    ] = DEFAULT_WEIGHTS

    @property
    def shares_weights(self) -> bool:
        """Whether networks are initialised by slices of shared draws."""
        return self.weights == SHARED


class InputOptions(Options):
    """The inputs of the networks."""

    images: Annotated[
        PathText | None,
        Option("Real images: a folder with a subfolder for each dataset.", "PATH", "noise"),
    ] = None
    text: Annotated[
        PathText | None,
        Option("A text file, read byte by byte, for language models.", "FILE", "random tokens"),
    ] = None
    batch_size: Annotated[
        Positive, Le(MOST_SAMPLES), Option("Images or sequences that a network sees.")
    ] = 4
    length: Annotated[Positive | None, Ge(2), Option("Tokens in a sequence.", default="64")] = None


C = TypeVar("C", bound=TaskConfig)


def require_choice(noun: str, given: str, choices: Iterable[str]) -> None:
    """Raise ConfigError unless the value is one of the choices."""
    if given not in choices:
        raise ConfigError(f"unknown {noun} {given!r}{nearest(given, choices)}")


def path_of(text: str | PathLike[str] | None) -> Path | None:
    """Return the path of an option that may be None."""
    return None if text is None else Path(text)


def absolute(value: Any) -> Any:
    """Make existing paths absolute, one or a tuple of them; names stay as they are."""
    if isinstance(value, tuple):
        return tuple(map(absolute, value))
    from autoprox.benchmarks import BENCHMARKS  # with numpy, which help does without

    is_path = isinstance(value, str) and value not in BENCHMARKS and os.path.exists(value)
    return str(Path(value).absolute()) if is_path else value


def completed(config: C, **filled: Any) -> C:
    """Return the configuration with its open options filled in."""
    return config.model_copy(update=filled)
