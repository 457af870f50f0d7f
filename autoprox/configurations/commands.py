"""The configurations of all tasks, quick to import: the commands' help is made of them."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Gt, Lt
from pydantic import AfterValidator, model_validator
from pydantic.fields import FieldInfo

from autoprox.configurations import presets
from autoprox.configurations.build import BuildConfig
from autoprox.configurations.shared_options import (
    MACHINE,
    PROBLEM,
    STRATEGY,
    BenchmarkOptions,
    CacheOptions,
    DataOptions,
    DeviceOptions,
    FlopsRange,
    InputOptions,
    ParamsRange,
    ScoringOptions,
    SpreadOptions,
    TaskConfig,
    names,
)
from autoprox.configurations.supernets import (
    PrenasConfig,
    S3Config,
    SupernetEvalConfig,
    SupernetTrainConfig,
)
from autoprox.declared_options import (
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
from autoprox.errors import ConfigError
from autoprox.evolution_parameters import EvolutionParameters, TreeLimits
from autoprox.files.human_readable import parse_bytes, parse_size
from autoprox.nas.strategies import SEARCH_STRATEGIES

GIB = 2**30
SPACES = "Several spaces"
SHARED = "Several strategies"
ZOO = ("snip", "synflow", "dss++", "naswot", "zico", "head_confidence", "activation_distance")


def numbers(text: str) -> tuple[float, ...]:
    """The numbers in a list separated by commas."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise ConfigError(f"weights must be numbers separated by commas, got {text!r}") from None


class EvolveConfig(
    CacheOptions,
    SpreadOptions,
    DeviceOptions,
    TreeLimits,
    EvolutionParameters,
    InputOptions,
    ScoringOptions,
    BenchmarkOptions,
    TaskConfig,
):
    """What a discovery depends on, and what it may use."""

    kind = "evolve"
    task = "autoprox.commands.evolve:Evolve"
    noun = "an evolution"

    spaces: Annotated[
        Names | None,
        Option(
            "One formula for all of these: a search space, BENCHMARK:SPACE, or a JSON table of "
            "your own. The joint metric is over all pairs of a space and a dataset.",
            SPACES, "A,B,C", "one: --space", read=names,
        ),
    ] = None  # fmt: skip
    hold_out: Annotated[
        str | None,
        Option(
            "Evolve on the other --spaces, and report on this one too; each: one evolution for "
            "each of them.",
            SPACES, "SPACE|each", "none",
        ),
    ] = None  # fmt: skip
    islands: Annotated[
        Positive,
        Option(
            "Separate populations, each with all iterations and its share of the evaluations, "
            "whose best formulas are compared in the end.",
            "Evolution",
        ),
    ] = 1  # fmt: skip
    halving: Annotated[
        bool | None,
        Option(
            "Successive halving: measure formulas on a quarter of each space's training networks, "
            "the better half of them on a half, and the better half of these on all.",
            "Evolution", default="with several --spaces",
        ),
    ] = None  # fmt: skip
    preset: Annotated[
        str | None,
        Option(
            f"Options by one name; those given beside it count more. "
            f"{presets.explained(presets.EVOLVE)}.",
            "Evolution", default="none",
        ),
    ] = None  # fmt: skip
    weights: Annotated[
        Numbers | None,
        Option("How much each dataset counts.", PROBLEM, "X,Y,Z", "all the same", read=numbers),
    ] = None
    train: Annotated[
        float, Gt(0), Lt(1),
        Option("Part of the architectures to evolve on; the rest is the test.", PROBLEM),
    ] = 0.6  # fmt: skip
    split_seed: Annotated[Whole, Option("Fixes the split alone.", PROBLEM)] = 0
    statistics: Annotated[
        Names | None,
        Option(
            "What formulas may read: msa.grad,ones.mlp.weight.",
            "Evolution", "A,B,C", "all", read=names,
        ),
    ] = None  # fmt: skip
    set: Annotated[
        Mapping[str, Any] | None,
        Option(
            "An option of the strategy's own, such as one of a plug-in's. Repeat it for more.",
            "Evolution", "NAME=VALUE", "its own", read=read_assignments, repeated=True,
        ),
    ] = None  # fmt: skip
    structure: Annotated[
        bool, Option("Formulas may read the blocks' widths, tokens and heads too.", "Evolution")
    ] = False
    zoo: Annotated[
        Names,
        Option(
            "Published proxies to compare with the one that is found: names, all or none.",
            PROBLEM, "A,B,C", ",".join(ZOO), read=names,
        ),
    ] = ZOO  # fmt: skip
    memory: Annotated[
        Positive,
        Option(
            "For statistics, the others of which are read from the disk, and an eighth of it for "
            "what formulas make of them.",
            MACHINE, "SIZE", "4GiB", read=parse_bytes, resource=True,
        ),
    ] = 4 * GIB  # fmt: skip
    stride: Annotated[
        Positive | None,
        Option(
            "Evolution reads every n-th row and column of a matrix; reports read all.",
            MACHINE, default="by the size of the networks",
        ),
    ] = None  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: dict[str, Any]) -> dict[str, Any]:
        return presets.with_preset(presets.EVOLVE, given)


class RankConfig(
    SpreadOptions, DeviceOptions, InputOptions, ScoringOptions, BenchmarkOptions, TaskConfig
):
    """What a ranking of proxies depends on, and what it may use."""

    kind = "rank"
    task = "autoprox.commands.rank:Rank"
    noun = "a ranking"

    proxies: Annotated[
        Names,
        Option(
            "Names of the zoo, expressions, proxy files or runs; all: the whole zoo.",
            PROBLEM, "A,B,C", "all", read=names,
        ),
    ] = ("all",)  # fmt: skip
    seeds: Annotated[
        Positive, Option("How many seeds, from --seed on: weights and noise.", PROBLEM)
    ] = 1
    published: Annotated[
        bool, Option("Show what papers report beside it.", PROBLEM)
    ] = False  # fmt: skip


class CompareConfig(SpreadOptions, DeviceOptions, InputOptions, DataOptions, TaskConfig):
    """What a comparison of discoveries depends on."""

    kind = "compare"
    task = "autoprox.commands.compare:Compare"
    noun = "a comparison"

    proxies: Annotated[
        Paths,
        Option(
            "Runs of evolve on one benchmark, formulas of them (RUN:N), and published names.",
            argument=True, repeated=True,
        ),
    ]  # fmt: skip
    seeds: Annotated[
        Positive, Option("How many seeds, from --seed on: weights and noise.", PROBLEM)
    ] = 1


class SearchConfig(SpreadOptions, DeviceOptions, InputOptions, DataOptions, TaskConfig):
    """What a search of architectures depends on, and what it may use."""

    kind = "search"
    task = "autoprox.commands.search:Search"
    noun = "a search"

    space: Annotated[
        str | None, Option("Search space; needed.", PROBLEM, default="the benchmark's")
    ] = None
    benchmark: Annotated[
        PathText | None,
        Option(
            "Whose space, dataset and classes are taken, if they aren't given.",
            PROBLEM, "NAME|FILE", "none",
        ),
    ] = None  # fmt: skip
    proxy: Annotated[
        PathText,
        Option("A run, a proxy file, a published name or an expression; needed.", PROBLEM),
    ]
    params: ParamsRange = (None, None)
    flops: FlopsRange = (None, None)
    match_size: Annotated[
        str | int | None,
        AfterValidator(partial(parse_size, "match_size")),
        Option("Parameters within 2 % of this: 6M.", PROBLEM, "SIZE", "any", read=str),
    ] = None
    subnets: Annotated[
        PathText | None,
        Option(
            "What random chooses from, as preferred.json and top.json have it.",
            PROBLEM, "FILE", "the space",
        ),
    ] = None  # fmt: skip
    objective: Annotated[
        str,
        Option(
            "score, or equal-size: what of the score's rank the parameters don't explain.", PROBLEM
        ),
    ] = "score"
    weights: Annotated[
        str,
        Option(
            "fresh: each candidate is built and measured; inherited: it is a slice of the largest.",
            PROBLEM,
        ),
    ] = "fresh"
    evaluator: Annotated[
        str | None,
        Option(
            "Gives the true value of architectures: a benchmark, or a function that takes "
            "{space, choices} and returns a number, higher is better. With any strategy but "
            "etas, it evaluates the best by the proxy in the end, until --top have a value, and "
            "the largest.",
            PROBLEM, "NAME|MODULE:FUNCTION", "none", code=True,
        ),
    ] = None  # fmt: skip
    dataset: Annotated[
        str | None,
        Option("Whose number of classes the heads have.", PROBLEM, default="imagenet"),
    ] = None
    classes: Annotated[
        Positive | None, Option("Of the heads.", PROBLEM, default="the dataset's")
    ] = None
    top: Annotated[Positive, Option("How many of the best are shown and kept.", PROBLEM)] = 10
    strategy: Annotated[
        str, Option(f"{', '.join(SEARCH_STRATEGIES.registered)}, or one of a plug-in.", STRATEGY)
    ] = "random"
    set: Annotated[
        Mapping[str, Any] | None,
        Option(
            "Any option of the strategy, such as one of a plug-in's. Repeat it for more.",
            STRATEGY, "NAME=VALUE", "its own", read=read_assignments, repeated=True,
        ),
    ] = None  # fmt: skip

    @classmethod
    def described(cls) -> Iterator[tuple[str, FieldInfo, Option]]:
        """Yield each option, those of the registered strategies among them."""
        yield from super().described()
        settings = {name: own.settings for name, own in SEARCH_STRATEGIES.registered.items()}
        for name, field, option in described_together(settings, SHARED):
            if name not in cls.model_fields:  # such a one is only set by --set
                yield name, field, option

    if TYPE_CHECKING:  # no type checker knows the options of strategies, which are taken too

        def __init__(self, *, proxy: PathText, **options: Any) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _into_set(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Enter the options of strategies that are given by name into `set`."""
        strategies = dict(SEARCH_STRATEGIES.registered)
        name = given.get("strategy")
        if isinstance(name, str) and name in SEARCH_STRATEGIES:
            strategies[name] = SEARCH_STRATEGIES[name]  # which may be of a plug-in
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
    """What the rediscovery of a known proxy depends on, and what it may use."""

    kind = "rediscover"
    task = "autoprox.commands.rediscover:Rediscover"
    noun = "a rediscovery"

    proxy: Annotated[
        PathText,
        Option("A published name, a proxy file, a run or an expression.", argument=True),
    ]
    seconds: Annotated[
        float, Gt(0), Option("When to give up.", PROBLEM)
    ] = 600.0  # fmt: skip


ALL: tuple[type[TaskConfig], ...] = (
    *(EvolveConfig, RankConfig, CompareConfig, SearchConfig, RediscoverConfig, BuildConfig),
    *(SupernetTrainConfig, SupernetEvalConfig, PrenasConfig, S3Config),
)
CONFIGURATIONS: dict[str, type[TaskConfig]] = {config.kind: config for config in ALL}
