"""Automatic discovery of zero-cost proxies for transformers, and architecture search with them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoprox.api import (
        build,
        build_benchmark,
        compare,
        evaluate_supernet,
        evolve,
        load_proxy,
        prefer,
        rank,
        rediscover,
        resume,
        score,
        search,
        search_space,
        train_supernet,
    )
    from autoprox.loaded_runs import load_run

    __version__: str

__all__ = [
    "__version__",
    "build",
    "build_benchmark",
    "compare",
    "evaluate_supernet",
    "evolve",
    "load_proxy",
    "load_run",
    "prefer",
    "rank",
    "rediscover",
    "resume",
    "score",
    "search",
    "search_space",
    "train_supernet",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that importing the package is quick."""
    if name == "__version__":
        from importlib.metadata import version

        return version("autoprox")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autoprox import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
