"""What there is on this machine: versions, devices, data, the cache, and what may be written."""

from pathlib import Path
from typing import Any

from autoprox.benchmarks import list_benchmarks
from autoprox.commands.cache import cache_facts
from autoprox.commands.optional_imports import failed_imports
from autoprox.files.folders import is_writable
from autoprox.runs.folder import environment
from autoprox.statistics.collector import resolve_device


def machine_facts(data_dir: Path | None = None) -> dict[str, Any]:
    """What a bug report needs, and what may be amiss."""
    here = environment(resolve_device("auto"))
    runs = Path("runs")
    return {
        **{name: here[name] for name in ("python", "packages", "platform", "device", "threads")},
        "benchmarks": {
            found["name"]: bool(found["embedded"] or found["installed"])
            for found in list_benchmarks(data_dir)
        },
        "imports": failed_imports(),
        "cache": cache_facts(),
        "runs": {"folder": str(runs.absolute()), "writable": is_writable(runs)},
    }
