"""The options that several tasks have in common."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge, Le
from pydantic import AfterValidator

from autoprox.declared_options import Names, Option, Options, PathText, Positive, Whole
from autoprox.errors import ConfigError, nearest
from autoprox.files.human_readable import parse_bytes, parse_days, parse_range
from autoprox.progress import Progress

PROBLEM, STRATEGY, MACHINE = "Problem", "Strategy", "Machine"
MOST_WORKERS = 1_024
MOST_SAMPLES = 65_536
BACKENDS = ("local", "dask")
ADDRESS = re.compile(r"(t(cp|ls)://)?([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}")
Range = str | Sequence[int | None] | None
ParamsRange = Annotated[
    Range,
    AfterValidator(partial(parse_range, "params")),
    Option("Parameters: 10M:40M, 5M: or :6M.", PROBLEM, "LOW:HIGH", "any", read=str),
]
FlopsRange = Annotated[
    Range,
    AfterValidator(partial(parse_range, "flops")),
    Option("Multiply-accumulates for one input: 1.2G:2G.", PROBLEM, "LOW:HIGH", "any", str),
]
TrainingImages = Annotated[
    PathText,
    Option(
        "Images to train on; needed. A folder with one for each class, .npz, IDX or CIFAR binary "
        "files.",
        PROBLEM, "PATH",
    ),
]  # fmt: skip


def names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas, but for commas inside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts)


def read_address(text: str | None) -> str | None:
    """The address of a scheduler: HOST:PORT, tcp:// or tls:// before it."""
    if text is not None and not ADDRESS.fullmatch(text):
        rule = "scheduler must be HOST:PORT, for example tcp://10.0.0.1:8786"
        raise ConfigError(f"{rule}, but got {text!r}")
    return text


class TaskConfig(Options):
    """What every task has: where its run is kept, and how it tells how far it is."""

    kind: ClassVar[str]
    task: ClassVar[str]  # package.module:class, imported when a run begins

    runs: Annotated[
        PathText,
        Option("Where the run's folder is made.", metavar="DIR", stored=False),
    ] = "runs"
    name: Annotated[
        str | None,
        Option("How the folder's name ends.", default="what is done, and the seed", stored=False),
    ] = None
    progress: Annotated[
        Progress | bool,
        Option(
            "Whether to show a panel, or a function of (task, done, total, note) to call.",
            listed=False,
            stored=False,
        ),
    ] = True
    seed: Annotated[Whole, Option("Fixes all that is random.", PROBLEM)] = 0
    workers: Annotated[
        Positive,
        Le(MOST_WORKERS),
        Option("Threads; the result doesn't depend on them.", MACHINE, resource=True),
    ] = 2


class SpreadOptions(Options):
    """On which machines a task is done."""

    backend: Annotated[
        str,
        Option(
            "local: this machine; dask: the workers of --scheduler too.",
            MACHINE, resource=True,
        ),
    ] = "local"  # fmt: skip
    scheduler: Annotated[
        str | None,
        AfterValidator(read_address),
        Option("Address of dask's scheduler.", MACHINE, "HOST:PORT", "none", resource=True),
    ] = None


class DeviceOptions(Options):
    """Where networks are measured."""

    device: Annotated[
        str, Option("auto (CUDA, else MPS, else the CPU), cpu, cuda or mps.", MACHINE)
    ] = "auto"


class CacheOptions(Options):
    """Where statistics are kept."""

    cache: Annotated[
        PathText | None,
        Option(
            "Folder of measured statistics, for later runs; an URL that fsspec can open, such as "
            "s3://bucket/folder, is shared by machines, beside a copy in the user's.",
            MACHINE, "DIR|URL", "the user's", resource=True,
        ),
    ] = None  # fmt: skip
    cache_limit: Annotated[
        Whole | None,
        Option(
            "Size that the folder may have beside what this run needs; the least recently used "
            "goes.",
            MACHINE, "SIZE", "$AUTOPROX_CACHE_LIMIT, then 20GiB", read=parse_bytes, resource=True,
        ),
    ] = None  # fmt: skip
    cache_age: Annotated[
        Positive | None,
        Option(
            "Days after which what wasn't used goes.",
            MACHINE, "DAYS", "$AUTOPROX_CACHE_AGE, then 90", read=parse_days, resource=True,
        ),
    ] = None  # fmt: skip


class DataOptions(Options):
    """Where the benchmarks' files are."""

    data_dir: Annotated[
        PathText | None,
        Option(
            "Folder of the benchmarks' files.",
            PROBLEM, "DIR", "$AUTOPROX_DATA, then the user's cache",
        ),
    ] = None  # fmt: skip


class BenchmarkOptions(DataOptions):
    """Which architectures with which true scores."""

    benchmark: Annotated[
        PathText | None,
        Option(
            "Built in, or a JSON table of your own.", PROBLEM, "NAME|FILE", "the first that fits"
        ),
    ] = None
    space: Annotated[
        str | None, Option("Search space.", PROBLEM, default="the benchmark's first")
    ] = None
    datasets: Annotated[
        Names | None,
        Option("Rank well on these.", PROBLEM, "A,B,C", "all there are", read=names),
    ] = None
    label: Annotated[
        str | None, Option("Which true scores.", PROBLEM, default="the space's first")
    ] = None
    subset: Annotated[str, Option("Which architectures: main, extra or all.", PROBLEM)] = "main"


class ScoringOptions(Options):
    """What scores are worth."""

    ties: Annotated[
        str,
        Option("How tied scores count: unordered, or tau-b (as in the papers).", PROBLEM),
    ] = "unordered"


class InputOptions(Options):
    """What the networks see."""

    images: Annotated[
        PathText | None,
        Option(
            "Real images, in a folder for each dataset below this one.", PROBLEM, "PATH", "noise"
        ),
    ] = None
    text: Annotated[
        PathText | None,
        Option(
            "A text file, read byte by byte, for language models.",
            PROBLEM, "FILE", "random tokens",
        ),
    ] = None  # fmt: skip
    batch_size: Annotated[
        Positive, Le(MOST_SAMPLES), Option("Images or sequences that a network sees.", PROBLEM)
    ] = 4
    length: Annotated[
        Positive | None, Ge(2), Option("Tokens of a sequence.", PROBLEM, default="64")
    ] = None


C = TypeVar("C", bound=TaskConfig)


def require_choice(noun: str, given: str, choices: Iterable[str]) -> None:
    """Raise ConfigError unless what is given is one of the choices."""
    if given not in choices:
        raise ConfigError(f"unknown {noun} {given!r}{nearest(given, choices)}")


def path_of(text: str | PathLike[str] | None) -> Path | None:
    """The path of an option that may be left open."""
    return None if text is None else Path(text)


def absolute(value: Any) -> Any:
    """Paths that exist, one or several of them, from the root on; names as they are."""
    if isinstance(value, tuple):
        return tuple(map(absolute, value))
    from autoprox.benchmarks import BENCHMARKS  # with numpy, which help does without

    is_path = isinstance(value, str) and value not in BENCHMARKS and Path(value).exists()
    return str(Path(value).absolute()) if is_path else value


def completed(config: C, **filled: Any) -> C:
    """The configuration with what it left open filled in."""
    return config.model_copy(update=filled)
