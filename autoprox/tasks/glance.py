"""A proxy or a run of any kind at a glance, to be shown beside others."""

from dataclasses import replace
from typing import Any

from autoprox.report.terminal.proxy import proxy_details
from autoprox.runs.folder import Run
from autoprox.runs.overview import overview
from autoprox.zoo.proxy_loading import find_run, resolve_proxy

WITH_PROXY = ("evolve", "rediscover")


def glance(source: str) -> dict[str, Any]:
    """The facts of a proxy, and of the run that it is from."""
    found: dict[str, Any] = {"name": source}
    place = find_run(source)
    if place is not None:
        run = Run.open(place[0])
        found |= overview(run) if place[1] == 1 else {}
        found["settings"] = run.read_config()
        if run.kind not in WITH_PROXY or run.read_summary() is None:
            return found
    loaded = resolve_proxy(source)
    details = proxy_details(replace(loaded, summary=None))
    return {
        **found,
        "expression": details.get("expression"),
        "formula": details["formula"],
        "nodes": details.get("size"),
        "depth": details.get("depth"),
    }
