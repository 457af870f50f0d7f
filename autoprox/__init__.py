"""Discovers zero-cost proxies for transformers, and searches architectures with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from autoprox.language import Tree
    from autoprox.tasks.evolve import Progress

__all__ = ["__version__", "evolve", "load_proxy", "search"]

# Torch takes seconds to import: nothing here needs it before it is called.


def evolve(
    *,
    runs: str | Path = "runs",
    name: str | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Discover a proxy in a new folder below `runs`, or go on with the run at `resume`.

    The options are the fields of `Config`, `EvolutionParameters` and `TreeLimits`, for example
    ``evolve(space="pit", datasets=["cifar100", "flowers"], seed=1, iterations=50)``.
    Returns the run's summary, what `autoprox evolve --json` prints.
    """
    from pathlib import Path

    from autoprox.tasks import evolve as discovery
    from autoprox.tasks.config import Config

    show = progress or discovery.silent
    if resume is None:
        return discovery.discover(Config.of(**options), Path(runs), name, show)
    named = {"name": name} if name else {}
    return discovery.resume(Path(resume), show, **options, **named)


def search(
    *,
    runs: str | Path = "runs",
    name: str | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Search in a new folder below `runs`, or go on with the run at `resume`."""
    from pathlib import Path

    from autoprox.tasks import search as running
    from autoprox.tasks.search_config import SearchConfig

    show = progress or running.silent
    if resume is None:
        return running.run_search(SearchConfig.of(**options), Path(runs), name, show)
    named = {"name": name} if name else {}
    return running.resume(Path(resume), show, **options, **named)


def load_proxy(source: str | Path) -> Tree:
    """The proxy in a run folder or proxy file, of a published name, or of an expression."""
    from autoprox.language import require_network
    from autoprox.zoo.loading import load

    return require_network(load(str(source)).tree)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("autoprox")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
