"""The Python functions: each takes the options of a task as keywords, and returns its result.

The options, with their types and defaults, are the fields of the configuration; `name`, `runs` and
`progress` are among them: False for no panel, or a function that is called instead, as
`autoprox.progress` describes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from autoprox.configurations.commands import (
    BuildConfig,
    CompareConfig,
    CurveConfig,
    EvolveConfig,
    RankConfig,
    RediscoverConfig,
    SearchConfig,
    SuggestConfig,
)
from autoprox.configurations.shared_options import TaskConfig
from autoprox.configurations.supernets import (
    PrenasConfig,
    S3Config,
    SupernetEvalConfig,
    SupernetTrainConfig,
)
from autoprox.declared_options import Options
from autoprox.errors import AutoproxError as AutoproxError
from autoprox.errors import ConfigError
from autoprox.loaded_runs import (
    BuildResult,
    CompareResult,
    CurveResult,
    EvolveResult,
    LoadedRun,
    Overview,
    PrenasResult,
    RankResult,
    RediscoverResult,
    S3Result,
    SearchResult,
    SupernetResult,
    SupernetTableResult,
    runs_below,
)
from autoprox.loaded_runs import (
    load_run as load_run,
)
from autoprox.progress import Progress, silent

if TYPE_CHECKING:
    from torch import Tensor, nn

    from autoprox.commands.suggest import Suggestions
    from autoprox.language import Tree
    from autoprox.searchspaces import Architecture, TransformerNetwork

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=LoadedRun)

# Torch takes seconds to import: what needs it is imported when a function is called.


def _function(config: Callable[P, TaskConfig], result: type[R], example: str) -> Callable[P, R]:
    """Return the function of a command, with the signature of its configuration."""

    def call(*args: P.args, **options: P.kwargs) -> R:
        from autoprox import runner

        given = config(*args, **_as_texts(options))
        summary = _with_progress(given.progress, lambda own: runner.start(given, own))
        return result(summary.run)

    call.__name__ = call.__qualname__ = example.partition("(")[0]
    if isinstance(config, type) and issubclass(config, TaskConfig):
        _describe(call, config, result, example)
    return call


def _as_texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Turn proxies that are runs or formulas into what names them, as on the command line."""
    from autoprox.language import Tree

    def text(value: Any) -> Any:
        if isinstance(value, LoadedRun):
            return str(value.path)
        return str(value) if isinstance(value, Tree) else value

    found = dict(options)
    for name in ("proxy", "proxies"):
        if name in found:
            value = found[name]
            found[name] = [*map(text, value)] if isinstance(value, list | tuple) else text(value)
    return found


def _describe(function: Any, config: type[Options], result: Any, example: str) -> None:
    """Give a function the help and the signature of a configuration."""
    first = str(config.__doc__).partition("\n")[0]
    function.__doc__ = f"{first}\n\nExample: {example}.\n\n{config.option_lines()}"
    function.__signature__ = config.signature().replace(return_annotation=result)


def _with_progress(wanted: Progress | bool, call: Callable[[Progress], T]) -> T:
    """Return what `call` returns, its progress shown in a panel or passed to a function."""
    if wanted is True:
        from autoprox.report.terminal.progress_display import progress_on

        with progress_on() as progress:
            return call(progress)
    return call(wanted or silent)


evolve = _function(EvolveConfig, EvolveResult, "evolve(space='pit', seed=1)")
rank = _function(RankConfig, RankResult, "rank(proxies=['snip', 'params'])")
compare = _function(CompareConfig, CompareResult, "compare(proxies=[one.run, other.run])")
curve = _function(CurveConfig, CurveResult, "curve(space='autoformer-nano', labels=(0, 5, 20))")
search = _function(
    SearchConfig, SearchResult, "search(space='pit', proxy='dss++', params='5M:10M')"
)
rediscover = _function(RediscoverConfig, RediscoverResult, "rediscover(proxy='snip')")
s3 = _function(S3Config, S3Result, "s3(space='swin-nano', images='photos', rounds=3)")
bench_build = _function(
    BuildConfig, BuildResult, "bench_build(space=..., images=[...], out='mine.json')"
)
supernet_train = _function(
    SupernetTrainConfig,
    SupernetResult,
    "supernet_train(space='autoformer-nano', images='photos')",
)
supernet_eval = _function(
    SupernetEvalConfig, SupernetTableResult, "supernet_eval(supernet=trained.run, samples=1000)"
)
prenas = _function(
    PrenasConfig, PrenasResult, "prenas(space='autoformer-supernet-ti', sizes='5M:12M:1M')"
)


def suggest(**options: Any) -> Suggestions:
    from autoprox.commands.suggest import suggest as suggested

    config = SuggestConfig(**options)
    return _with_progress(config.progress, lambda own: suggested(config, own))


_describe(suggest, SuggestConfig, "Suggestions", "suggest(table='my.json', count=4)")


def resume(
    run: str | Path,
    *,
    workers: int | None = None,
    memory: int | None = None,
    cache: str | None = None,
    cache_limit: int | None = None,
    cache_age: int | None = None,
    backend: str | None = None,
    scheduler: str | None = None,
    evaluator: str | None = None,
    teacher: str | None = None,
    force: bool = False,
    progress: Progress | bool = True,
) -> LoadedRun:
    """Continue a run of any kind as if it had never stopped; a finished one is read.

    Options that aren't given keep their values. The run's evaluator or teacher is only called
    if it is given again, because a run's files could name any function.

    run: Folder of the run.
    workers: Threads, or processes of a build; they don't change the results.
    memory: Memory for statistics, in bytes.
    cache: Folder or URL of measured statistics.
    cache_limit: Size of that folder, in bytes.
    cache_age: Days after which unused files are removed.
    backend: local: this machine; dask: the workers of a scheduler too.
    scheduler: Address of dask's scheduler.
    evaluator: The run's evaluator, to be called again.
    teacher: The run's teacher, to be called again.
    force: Continue although versions, or files that the run reads, have changed.
    progress: Whether to show a panel, or a function of (task, done, total, note) to call.
    """
    from autoprox import runner

    given: dict[str, Any] = {
        "workers": workers,
        "memory": memory,
        "cache": cache,
        "cache_limit": cache_limit,
        "cache_age": cache_age,
        "backend": backend,
        "scheduler": scheduler,
        "evaluator": evaluator,
        "teacher": teacher,
    }
    given = {name: value for name, value in given.items() if value is not None}
    path = Path(run)
    _with_progress(progress, lambda own: runner.resume_run(path, own, force=force, **given))
    return load_run(path)


def list_runs(folder: str | PathLike[str] = "runs") -> list[Overview]:
    """List the runs of a folder, the newest first; `autoprox.runs()` is the same.

    folder: Folder that the runs are in.
    """
    return runs_below(Path(folder))


def load_proxy(source: str | Path) -> Tree:
    """Load a proxy from a run folder, a proxy file, a published name or an expression.

    source: The folder, file, name or expression; RUN:2 is the second formula of a run.
    """
    from autoprox.language import require_complete_proxy
    from autoprox.zoo.proxy_loading import resolve_proxy

    return require_complete_proxy(resolve_proxy(str(source)).tree)


def score(
    proxy: str | Path | Tree | LoadedRun,
    model: nn.Module | Sequence[nn.Module],
    inputs: Tensor,
    targets: Tensor,
    *,
    msa: Sequence[str] = (),
    mlp: Sequence[str] = (),
    seed: int = 0,
) -> float | list[float]:
    """Score any model by a proxy, or several models; they are left unchanged.

    A proxy that ranks needs several models; scores that aren't finite are nan.

    proxy: A run, a proxy file, a published name, an expression, or a loaded proxy.
    model: A module, or a list of several modules.
    inputs: Images [batch, channels, height, width], or tokens [batch, length].
    targets: Classes [batch], or a token for each token, -100 if there is none.
    msa: Patterns of the names of attention layers; by default those of known families.
    mlp: Patterns of the names of MLP layers; by default those of known families.
    seed: Seed of the random numbers.
    """
    from autoprox.commands.score import score_models
    from autoprox.inputs.batch import Batch

    source = proxy.path if isinstance(proxy, LoadedRun) else proxy
    tree = load_proxy(source) if isinstance(source, str | Path) else source
    several = isinstance(model, Sequence)
    models = list(model) if isinstance(model, Sequence) else [model]
    batch = Batch(inputs, targets, 0, "given")
    patterns = {domain: given for domain, given in (("msa", msa), ("mlp", mlp)) if given}
    named = [(f"model {number}", own, batch) for number, own in enumerate(models, start=1)]
    found = score_models(tree, named, patterns, seed)
    if found.ranks and len(models) == 1:
        raise ConfigError("a proxy that ranks needs a list of several models, but got one")
    scores = [math.nan if one.score is None else one.score for one in found.models]
    return scores if several else scores[0]


def build(
    architecture: Architecture | LoadedRun | str | Path | Mapping[str, Any] | Sequence[Any],
    *,
    space: str | None = None,
    classes: int | None = None,
    seed: int = 0,
) -> TransformerNetwork:
    """Build the network of an architecture by its published initialisation.

    architecture: {space, choices}, its choices with `space`, an entry with `arch` such as `best`,
        the first of a list of these, a JSON file, a run, or the Nth best of a run: RUN:N.
    space: Search space, if the architecture doesn't name it.
    classes: Classes of the head; by default those of the run, or else the space's.
    seed: Seed of the initial weights.
    """
    from autoprox.commands.export_network import read_architecture
    from autoprox.searchspaces import Architecture, architecture_from_json, get_space

    if isinstance(architecture, LoadedRun | str | Path):
        source = architecture.path if isinstance(architecture, LoadedRun) else architecture
        found, classes = read_architecture(str(source), space, classes)
    elif isinstance(architecture, Architecture):
        found = architecture
    else:
        found = architecture_from_json(architecture, get_space(space) if space else None)
    own = get_space(found.space)
    return own.build(found, classes or own.default_classes, seed)
