"""Automatic discovery of zero-cost proxies for transformers, and architecture search with them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoprox import runs
    from autoprox.api import (
        bench_build,
        build,
        compare,
        curve,
        evolve,
        list_runs,
        load_proxy,
        prenas,
        rank,
        rediscover,
        resume,
        s3,
        score,
        search,
        suggest,
        supernet_eval,
        supernet_train,
    )
    from autoprox.errors import AutoproxError
    from autoprox.loaded_runs import load_run

    __version__: str

__all__ = [
    "AutoproxError",
    "__version__",
    "bench_build",
    "build",
    "compare",
    "curve",
    "evolve",
    "list_runs",
    "load_proxy",
    "load_run",
    "prenas",
    "rank",
    "rediscover",
    "resume",
    "runs",
    "s3",
    "score",
    "search",
    "suggest",
    "supernet_eval",
    "supernet_train",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that importing the package is quick."""
    if name == "__version__":
        from importlib.metadata import version

        return version("autoprox")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "runs":  # a package that can be called
        return import_module("autoprox.runs")
    return getattr(import_module("autoprox.api"), name)


def __dir__() -> list[str]:
    return __all__
