"""The configurations of all commands that make runs, quick to import: help is made of them."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Gt, Le, Lt
from pydantic import AfterValidator, model_validator
from pydantic.fields import FieldInfo

from autoprox.configurations.shared_options import (
    DEFAULT_WEIGHTS,
    INHERITED,
    MOST_WORKERS,
    WEIGHTS,
    BenchmarkOptions,
    CacheOptions,
    CommandConfig,
    DataOptions,
    DeviceOptions,
    FlopsRange,
    InputOptions,
    MachineOption,
    ParamsRange,
    RangeText,
    Resource,
    ScoringOptions,
    Seeds,
    SpreadOptions,
    StrategyOption,
    TaskConfig,
    WeightOptions,
    names,
)
from autoprox.configurations.supernets import (
    PrenasConfig,
    S3Config,
    SupernetEvalConfig,
    SupernetTrainConfig,
)
from autoprox.declared_options import (
    GENERAL,
    Many,
    Names,
    Numbers,
    Option,
    Paths,
    PathText,
    Positive,
    Whole,
    described_together,
    read_assignments,
)
from autoprox.errors import ConfigError, nearest
from autoprox.evolution_parameters import (
    BY_FORM,
    EvolutionOption,
    EvolutionParameters,
    TreeLimits,
)
from autoprox.files.human_readable_sizes import parse_bytes, parse_range, parse_size
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES
from autoprox.progress import Progress

GIB = 2**30
SPACES_GROUP = "Several spaces"
SHARED_GROUP = "Several strategies"
SUGGESTING_PROXIES = (
    "autoprox-p",
    "dss++",
    "sept",
    "params",
)  # the mean of the process of suggestions
TOP = 10  # candidates that a search shows
ZOO = ("snip", "synflow", "dss++", "naswot", "zico", "head_confidence", "activation_distance")
ComparedProxies = Annotated[
    Names,
    Option("Published proxies to compare with: names, all or none.", "A,B,C", ",".join(ZOO), names),
]
StatisticsMemory = Annotated[
    Positive,
    Resource(
        "Memory for statistics; those that don't fit are read from disk. Formulas take an eighth "
        "as much again.",
        "SIZE", "4GiB", parse_bytes,
    ),
]  # fmt: skip
# Options of evolve under one name. Auto-Prox's margin of 0.1 is in percent; it mutates until a
# child is better, uses tau-b, and returns the fittest formula.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "auto-prox": MappingProxyType(
            {
                "form": "tree",
                "representation": "two-inputs",
                "strategy": "elitist",
                "statistics": (
                    *("msa.weight", "msa.grad"),
                    *("mlp.weight", "mlp.grad", "mlp.act", "mlp.act_grad"),
                ),
                "population": 20,
                "iterations": 200,
                "children": 1,
                "retries": 10,
                "margin": 0.001,
                "tolerance": 0.0,
                "ties": "tau-b",
            }
        )
    }
)


# Where they differ from those of trees; chosen on training parts (docs/results/selection.md).
POWER_LAW_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "population": 1500,
        "iterations": 10,
        "children": 150,
        "max_size": 7,
        "max_depth": 6,
        "structure": True,
    }
)


def numbers(text: str, name: str = "dataset_weights") -> tuple[float, ...]:
    """Read a list of numbers separated by commas."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        rule = f"{name} must be numbers separated by commas"
        raise ConfigError(f"{rule}, but got {text!r}") from None


def _preset_lines() -> str:
    """Write each preset as options of the command line."""
    shown = {
        name: " ".join(
            f"--{option.replace('_', '-')} {','.join(v) if isinstance(v, tuple) else v}"
            for option, v in preset.items()
        )
        for name, preset in PRESETS.items()
    }
    return "; ".join(f"{name}: {options}" for name, options in shown.items())


class EvolveConfig(
    CacheOptions,
    SpreadOptions,
    DeviceOptions,
    WeightOptions,
    TreeLimits,
    EvolutionParameters,
    InputOptions,
    ScoringOptions,
    BenchmarkOptions,
    TaskConfig,
):
    """Discover a proxy: a formula that ranks untrained networks as training would.

    It is evolved on some of a benchmark's architectures and tested on the
    others, next to the networks' sizes and two regressions on their choices.
    With --spaces it is one formula for several spaces. Everything is kept in a
    new folder; `autoprox resume` continues an interrupted run.
    """

    kind = "evolve"
    task = "autoprox.commands.evolve:EvolveTask"
    noun = "an evolution"
    examples = (
        "evolve --space pit --datasets cifar100,flowers --seed 1",
        "evolve --benchmark my-vits.json --images photos --iterations 50",
        "evolve --spaces autoformer-nano,pit-nano --hold-out each",
    )
    common = (
        *("benchmark", "space", "datasets", "images", "spaces", "iterations", "objective"),
        *("seed", "workers", "name"),
    )

    spaces: Annotated[
        Names | None,
        Option(
            "One formula for all of these: a search space, BENCHMARK:SPACE, or a JSON table of "
            "your own. The joint metric is over all pairs of a space and a dataset.",
            "A,B,C", "one: --space", names, SPACES_GROUP,
        ),
    ] = None  # fmt: skip
    hold_out: Annotated[
        str | None,
        Option(
            "Test on this one of the --spaces and evolve on the others; each: hold out each "
            "space in turn.",
            "SPACE|each", "none", group=SPACES_GROUP,
        ),
    ] = None  # fmt: skip
    islands: Annotated[
        Positive,
        EvolutionOption(
            "Separate populations whose best formulas are compared at the end. Each has all "
            "iterations and its share of the evaluations."
        ),
    ] = 1
    halving: Annotated[
        bool | None,
        EvolutionOption(
            "Successive halving: measure formulas on a quarter of each space's training networks, "
            "the better half of them on a half, and the better half of these on all. Only with "
            "--form tree.",
            default="with several --spaces",
        ),
    ] = None
    preset: Annotated[
        str | None,
        EvolutionOption(
            "Several options under one name; options that are also given take precedence. "
            f"{_preset_lines()}.",
            default="none",
            choices=tuple(PRESETS),
        ),
    ] = None
    prior: Annotated[
        bool | None,
        EvolutionOption(
            "Start from the terms of a power law that was fitted to other tables, and shrink half "
            "of the committee towards it, more strongly the fewer labels there are.",
            default="with fewer than 30 training networks",
        ),
    ] = None
    dataset_weights: Annotated[
        Numbers | None,
        Option("How much each dataset counts.", "X,Y,Z", "all the same", numbers),
    ] = None
    train: Annotated[
        float,
        Gt(0),
        Lt(1),
        Option("Share of the architectures to evolve on; the others are for the test."),
    ] = 0.6
    split_seed: Annotated[Whole, Option("Seed of the split alone.")] = 0
    statistics: Annotated[
        Names | None,
        EvolutionOption(
            "Statistics that formulas may read, such as msa.grad,ones.mlp.weight.",
            "A,B,C",
            "all",
            names,
        ),
    ] = None
    set: Annotated[
        Mapping[str, Any] | None,
        EvolutionOption(
            "Any option of the strategy, such as one of a plug-in's. Repeat it for more.",
            "NAME=VALUE", "its own", read_assignments, repeated=True,
        ),
    ] = None  # fmt: skip
    structure: Annotated[
        bool,
        EvolutionOption(
            "Formulas may read the blocks' widths, tokens and heads too.",
            default=BY_FORM.format("yes", "no"),
        ),
    ] = False
    zoo: ComparedProxies = ZOO
    memory: StatisticsMemory = 4 * GIB
    stride: Annotated[
        Positive | None,
        MachineOption(
            "Evolution reads every n-th row and column of a matrix; reports read all.",
            default="by the size of the networks",
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("preset")
        if name is not None:
            if not isinstance(name, str) or name not in PRESETS:
                raise ConfigError(f"unknown preset {name!r}{nearest(str(name), PRESETS)}")
            given = {**PRESETS[name], **given}
        form = given.get("form") or cls.model_fields["form"].default
        return {**(POWER_LAW_DEFAULTS if form == "power-law" else {}), **given}


class RankConfig(
    SpreadOptions,
    DeviceOptions,
    WeightOptions,
    InputOptions,
    ScoringOptions,
    BenchmarkOptions,
    TaskConfig,
):
    """Rank proxies side by side by how well each orders a benchmark's networks.

    Every proxy is measured on all networks, with each seed. The run's folder has
    the table as JSON, CSV and Markdown. `autoprox resume` continues an interrupted ranking.
    """

    kind = "rank"
    task = "autoprox.commands.rank:RankTask"
    noun = "a ranking"
    examples = (
        "rank --proxies snip,dss++,params --space pit --seeds 3",
        "rank --benchmark my-vits.json",
        "rank --proxies runs/20260102T030405Z-mine,naswot --space autoformer-nano",
    )
    common = (
        *("proxies", "benchmark", "space", "datasets", "images", "seeds", "published"),
        *("seed", "workers", "name"),
    )

    proxies: Annotated[
        Names,
        Option(
            "Names of the zoo, expressions, proxy files or runs; all: the whole zoo.",
            "A,B,C", "all", names,
        ),
    ] = ("all",)  # fmt: skip
    seeds: Seeds = 1
    published: Annotated[bool, Option("Show the figures that papers report, too.")] = False


class CompareConfig(
    SpreadOptions, DeviceOptions, WeightOptions, InputOptions, DataOptions, TaskConfig
):
    """Compare discoveries on networks of their benchmark that none was evolved on.

    The report has their taus, overall and controlling for size, and the taus between their scores.
    """

    kind = "compare"
    task = "autoprox.commands.compare:CompareTask"
    noun = "a comparison"
    examples = (
        "compare runs/20260102T030405Z-a runs/20260102T040506Z-b",
        "compare runs/20260102T030405Z-a snip naswot",
        "compare runs/20260102T030405Z-a:1 runs/20260102T030405Z-a:2 --seeds 3",
    )

    proxies: Annotated[
        Paths,
        Option(
            "Runs of evolve on one benchmark, formulas of them (RUN:N), and published names.",
            group=GENERAL, argument=True, repeated=True,
        ),
    ]  # fmt: skip
    seeds: Seeds = 1


class CurveConfig(
    CacheOptions,
    SpreadOptions,
    DeviceOptions,
    WeightOptions,
    InputOptions,
    ScoringOptions,
    BenchmarkOptions,
    TaskConfig,
):
    """Show how many trained networks each method needs to rank the others.

    Labels are drawn at random from a benchmark, and each method ranks the networks
    without a label: the parameter count, the best published proxy, two regressions,
    and power laws, both from scratch and with prior knowledge from other tables.
    """

    kind = "curve"
    task = "autoprox.commands.curve:CurveTask"
    noun = "a curve"
    examples = (
        "curve --space autoformer-nano",
        "curve --benchmark my-vits.json --images photos --labels 0,5,10",
        "curve --space pit --labels 0,10,40 --draws 50",
    )
    common = (
        *("benchmark", "space", "datasets", "images", "labels", "draws", "population"),
        *("seed", "workers", "name"),
    )

    labels: Annotated[
        Numbers,
        Option(
            "Numbers of labels, each 0 or at least 3.",
            "N,N,N", "0,5,10,20,40", partial(numbers, name="labels"),
        ),
    ] = (0, 5, 10, 20, 40)  # fmt: skip
    draws: Annotated[Positive, Option("Random draws of each number of labels.")] = 20
    population: Annotated[
        Many, Option("Population of random terms that power laws are made of.")
    ] = 1500
    zoo: ComparedProxies = ZOO
    memory: StatisticsMemory = 4 * GIB


class SearchConfig(
    SpreadOptions, DeviceOptions, WeightOptions, InputOptions, DataOptions, TaskConfig
):
    """Search a space for its best architectures by a proxy, without any training.

    Every candidate is kept in a new folder with its score. `autoprox resume`
    continues an interrupted search, and measures nothing twice.
    """

    kind = "search"
    task = "autoprox.commands.search:SearchTask"
    noun = "a search"
    examples = (
        "search --space pit --proxy dss++ --params 5M:10M",
        "search --space autoformer-nano --proxy runs/20260102T030405Z-mine --match-size 60K",
        "search --space pit --proxy snip --strategy evolution --objective size-adjusted",
    )
    common = (
        *("proxy", "space", "params", "match_size", "objective", "strategy", "samples"),
        *("evaluator", "top", "seed", "workers"),
    )

    space: Annotated[str | None, Option("Search space.", default="the benchmark's")] = None
    benchmark: Annotated[
        PathText | None,
        Option(
            "Benchmark whose space, dataset and classes are used unless they are given.",
            "NAME|FILE", "none",
        ),
    ] = None  # fmt: skip
    proxy: Annotated[
        PathText | None,
        Option(
            "A run, a proxy file, a published name or an expression.",
            default="a ready-made proxy for the space",
        ),
    ] = None
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    match_size: Annotated[
        str | int | None,
        AfterValidator(partial(parse_size, "match_size")),
        Option("Parameter count to match within 2 %: 6M.", "SIZE", "any", str),
    ] = None
    subnets: Annotated[
        PathText | None,
        Option(
            "Architectures that the strategy random chooses from, as in preferred.json and "
            "top.json.",
            "FILE", "the space",
        ),
    ] = None  # fmt: skip
    objective: Annotated[
        str,
        Option(
            "What is maximised: score, or size-adjusted, the part of the score's rank that the "
            "parameter count doesn't explain.",
            choices=("score", "size-adjusted"),
        ),
    ] = "score"
    weights: Annotated[
        str,
        Option(
            "How initial weights are drawn. fresh: for each candidate; shared: as slices of one "
            "draw for all candidates; inherited: only for the largest network, of whose "
            "statistics candidates take slices.",
            choices=(*WEIGHTS, INHERITED),
        ),
    ] = DEFAULT_WEIGHTS
    evolved_with: Annotated[
        str | None,
        Option("Weights that the proxy was evolved with; filled in from its file.", listed=False),
    ] = None
    evaluator: Annotated[
        str | None,
        Option(
            "Source of the true values of architectures: a benchmark, or a function that takes "
            "{space, choices} and returns a number, higher is better. With any strategy but "
            "etas, it evaluates the best by the proxy at the end, until --top have a value, and "
            "the largest.",
            "NAME|MODULE:FUNCTION", "none", code=True,
        ),
    ] = None  # fmt: skip
    dataset: Annotated[
        str | None,
        Option(
            "Dataset that sets the number of classes.",
            default="10 classes for images of up to 32 pixels, else imagenet",
        ),
    ] = None
    classes: Annotated[
        Positive | None, Option("Classes of the classifiers.", default="the dataset's")
    ] = None
    top: Annotated[
        Positive | None,
        Option("Number of best candidates to show and keep.", default=f"{TOP}, or all"),
    ] = None
    found_on: Annotated[
        str | None,
        Option("Space on which the proxy was found, which a search records.", listed=False),
    ] = None
    strategy: Annotated[
        str,
        StrategyOption(
            f"Strategy of the search: {', '.join(SEARCH_STRATEGIES.registered)}, or one of a "
            "plug-in.",
            "STRATEGY",
            choices=tuple(SEARCH_STRATEGIES.registered),
        ),
    ] = "random"
    set: Annotated[
        Mapping[str, Any] | None,
        StrategyOption(
            "Any option of the strategy, such as one of a plug-in's. Repeat it for more.",
            "NAME=VALUE", "its own", read_assignments, repeated=True,
        ),
    ] = None  # fmt: skip

    @classmethod
    def described(cls) -> Iterator[tuple[str, FieldInfo, Option]]:
        """Yield each option, those of the registered strategies among them."""
        yield from super().described()
        settings = {name: own.settings for name, own in SEARCH_STRATEGIES.registered.items()}
        for name, field, option in described_together(settings, SHARED_GROUP):
            if name not in cls.model_fields:  # others can only be set by --set
                yield name, field, option

    if TYPE_CHECKING:  # type checkers don't know the options of strategies

        def __init__(self, *, proxy: PathText = ..., **options: Any) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _into_set(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Move the options of strategies that are given by name into `set`."""
        strategies = dict(SEARCH_STRATEGIES.registered)
        name = given.get("strategy")
        if isinstance(name, str) and name in SEARCH_STRATEGIES:
            strategies[name] = SEARCH_STRATEGIES[name]  # possibly a plug-in's
        names = {name for own in strategies.values() for name in own.settings.model_fields}
        own = {name: given[name] for name in given if name in names - cls.model_fields.keys()}
        others = {name: value for name, value in given.items() if name not in own}
        found = {name: value for name, value in own.items() if value is not None}
        values = given.get("set") or {}
        if not found or not isinstance(values, Mapping):
            return others
        if both := [name for name in found if name in values]:
            rule = f"{both[0]} must be given once"
            raise ConfigError(f"{rule}, but is an option of its own and in set")
        return {**others, "set": {**found, **values}}


class RediscoverConfig(CacheOptions, DeviceOptions, TaskConfig):
    """Rediscover a known proxy from its scores of small networks alone.

    Formulas are evolved until one fits and is shown to be the proxy: by its
    canonical form, by sympy, or by the scores of 64 new networks of another
    space. The exit code is 1 if none is found in time.
    """

    kind = "rediscover"
    task = "autoprox.commands.rediscover:RediscoverTask"
    noun = "a rediscovery"
    examples = (
        "rediscover snip --seed 1",
        "rediscover 'sum(mul(width, width))' --seconds 60",
        "rediscover synflow --workers 4 --name again",
    )

    proxy: Annotated[
        PathText,
        Option(
            "A published name, a proxy file, a run or an expression.", group=GENERAL, argument=True
        ),
    ]
    seconds: Annotated[float, Gt(0), Option("Time limit in seconds.")] = 600.0


class BuildConfig(SpreadOptions, TaskConfig):
    """Build a benchmark of your own: train architectures of a space on your images or texts.

    The score is the accuracy on held-out images, or the perplexity per byte of the last fifth of a
    text. `autoprox resume` continues a stopped build, and so does the same command; nothing is
    trained twice.
    """

    kind = "build"
    task = "autoprox.commands.build_benchmark:BuildTask"
    noun = "a benchmark"
    examples = (
        "bench build --space autoformer-nano --images photos --out p.json",
        "bench build --space gpt2-nano --text book.txt --out b.json --samples 100",
        "bench build --space pit-nano --images photos --out p.json --sizes 30K:90K --seeds 3",
    )

    space: Annotated[str, Option("Search space to sample.")]
    out: Annotated[PathText, Option("Table to write. Results are collected in FILE.parts.", "FILE")]
    images: Annotated[
        Paths,
        Option(
            "Images of a dataset to train on: a folder with one for each class, .npz, IDX or "
            "CIFAR binary files. Repeat it for more datasets.",
            "PATH", "none", repeated=True,
        ),
    ] = ()  # fmt: skip
    text: Annotated[
        Paths,
        Option(
            "A text file, read byte by byte, to train language models on. Repeat it for more "
            "datasets.",
            "FILE", "none", repeated=True,
        ),
    ] = ()  # fmt: skip
    samples: Annotated[Many, Option("Random architectures to train.")] = 64
    sizes: Annotated[
        RangeText,
        AfterValidator(partial(parse_range, "sizes")),
        Option(
            "Parameter counts of the architectures, spread evenly over the bands: 12K:48K.",
            "LOW:HIGH", "any", str,
        ),
    ] = (None, None)  # fmt: skip
    bands: Annotated[
        Positive | None,
        Option(
            "Number of size bands of equal width on a log scale; at most --samples.", default="8"
        ),
    ] = None
    seeds: Annotated[
        Positive, Option("Number of seeds: trainings of each architecture on each dataset.")
    ] = 2
    epochs: Annotated[
        Positive, Option("Passes over the data; incomplete last batches are dropped.")
    ] = 8
    teacher: Annotated[
        str | None,
        Option(
            "Distil from the network that this function returns for a dataset and its classes.",
            "MODULE:FUNCTION", "none", code=True,
        ),
    ] = None  # fmt: skip
    mirror: Annotated[
        Names,
        Option(
            "Mirror half of the images of this dataset. Repeat it for more.",
            "DATASET", "none", repeated=True,
        ),
    ] = ()  # fmt: skip


class SuggestConfig(DeviceOptions, InputOptions, CommandConfig):
    """Suggest which architectures to train next, given a table of trained ones.

    They have the greatest expected improvement under a Gaussian process on the
    choices, whose prior mean is the score of one or several proxies. The table
    records what was suggested; --add adds your results to it. Proxies are measured
    once: their scores are kept in the user's cache.
    """

    noun = "a suggestion"
    examples: ClassVar[tuple[str, ...]] = (
        "suggest --table my.json --space pit --datasets photos --classes 10 --out next.json",
        "suggest --table my.json --add results.json",
        "suggest --table my.json -k 8 --params 5M:10M --proxy autoprox-p,dss++ --out next.json",
    )
    common = (
        *("table", "add", "count", "out", "space", "datasets", "classes", "lower_is_better"),
        *("params", "flops", "proxy", "samples", "seed", "workers"),
    )

    table: Annotated[
        PathText, Option("Your own table, which is written if it doesn't exist.", "FILE")
    ]
    add: Annotated[
        PathText | None,
        Option(
            "Results to add to the table: an array of {space, choices, scores}, as in the file of "
            "suggestions with a score for each dataset. All or none are added.",
            "FILE", "none",
        ),
    ] = None  # fmt: skip
    count: Annotated[
        Positive | None, Option("Number of suggestions.", default="4; none with --add", short="-k")
    ] = None
    out: Annotated[
        PathText | None,
        Option(
            "File of suggestions to write, an array of {space, choices}.",
            "FILE", "TABLE-next.json",
        ),
    ] = None  # fmt: skip
    space: Annotated[str | None, Option("Search space.", default="the table's")] = None
    datasets: Annotated[
        Names | None, Option("Datasets of a new table.", "A,B,C", "the table's", names)
    ] = None
    classes: Annotated[
        Positive | None, Option("Classes of a new table's datasets.", default="the datasets'")
    ] = None
    lower_is_better: Annotated[
        bool, Option("A new table's scores are better if lower, as perplexities are.")
    ] = False
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    proxy: Annotated[
        Names,
        Option(
            "Proxies whose mean is the prior: published names, expressions, proxy files or runs; "
            "none: the choices alone.",
            "A,B,C", ",".join(SUGGESTING_PROXIES), names,
        ),
    ] = SUGGESTING_PROXIES  # fmt: skip
    samples: Annotated[Many, Option("Random architectures to choose from.")] = 400
    seed: Annotated[Whole, Option("Seed of the random numbers.")] = 0
    workers: Annotated[
        Positive, Le(MOST_WORKERS), MachineOption("Threads; the result doesn't depend on them.")
    ] = 2
    progress: Annotated[
        Progress | bool,
        Option(
            "Whether to show a panel, or a function of (task, done, total, note) to call.",
            listed=False,
        ),
    ] = True  # fmt: skip


ALL: tuple[type[TaskConfig], ...] = (
    *(
        EvolveConfig,
        RankConfig,
        CompareConfig,
        CurveConfig,
        SearchConfig,
        RediscoverConfig,
        BuildConfig,
    ),
    *(SupernetTrainConfig, SupernetEvalConfig, PrenasConfig, S3Config),
)
CONFIGURATIONS: dict[str, type[TaskConfig]] = {config.kind: config for config in ALL}
