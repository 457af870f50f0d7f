"""Searches architectures with a proxy, training nothing: `autoprox.search(...)` is this package.

A strategy is a function of a `searcher.Searcher`, one file each.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from autoprox.search.running import Progress

# Torch takes seconds to import: nothing here needs it before it is called.


def search(
    *,
    runs: str | Path = "runs",
    name: str | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Search in a new folder below `runs`, or go on with the run at `resume`.

    The options are the fields of `config.SearchConfig` and of the strategy's settings, for example
    ``search(space="autoformer-ti", proxy="dss++", strategy="blockwise", weights="inherited",
    params="5M:7M", steps=20)``. Returns the run's summary, what `autoprox search --json` prints.
    """
    from pathlib import Path

    from autoprox.search import running
    from autoprox.search.config import SearchConfig

    show = progress or running.silent
    if resume is None:
        return running.run_search(SearchConfig.of(**options), Path(runs), name, show)
    named = {"name": name} if name else {}
    return running.resume(Path(resume), show, **options, **named)


class _Search(ModuleType):
    """A package that can be called: importing one of its modules binds its name in `autoprox`."""

    __call__ = staticmethod(search)


sys.modules[__name__].__class__ = _Search
