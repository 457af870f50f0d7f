"""The machine and the cache."""

from collections.abc import Mapping
from typing import Any

from autoprox.files.human_readable import compact
from autoprox.files.shell_command import command_line
from autoprox.report.terminal.layout import Part, aligned

OPERATORS = "torchvision::"  # of a torchvision that was built for another torch
AROUND = " (autoprox declares these operators itself, and can use it)"


def machine_report(facts: Mapping[str, Any]) -> list[Part]:
    """Facts, a line each, and what is amiss."""
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    benchmarks = facts["benchmarks"]
    lacking = [name for name, there in benchmarks.items() if not there]
    found = {
        "python": f"{facts['python']} on {facts['platform']}",
        "packages": packages,
        "device": f"{facts['device']}, {facts['threads']} threads",
        "data": ", ".join(name for name, there in benchmarks.items() if there) or "none",
        "cache": cache_line(facts["cache"]),
        "runs": facts["runs"]["folder"],
    }
    if lacking:
        found["no data of"] = f"{', '.join(lacking)} ({command_line('bench', 'fetch', 'NAME')})"
    places = (facts["cache"], facts["runs"])
    amiss = [f"Not writable: {own['folder']}" for own in places if not own["writable"]]
    amiss += [
        f"{name} can't be imported: {reason}" + (AROUND if OPERATORS in reason else "")
        for name, reason in facts["imports"].items()
    ]
    return [aligned(found), "\n".join(amiss) or "Nothing is amiss."]


def cache_report(facts: Mapping[str, Any]) -> list[Part]:
    """Its place, its size and that of its parts, its limit, and the oldest of it."""
    parts = ", ".join(f"{name} {compact(size)}B" for name, size in facts["parts"].items())
    limit, age = compact(facts["limit"]), facts["age"]
    found = {
        "cache": facts["folder"],
        "size": f"{compact(facts['bytes'])}B in {facts['files']} files",
        "parts": parts or "none",
        "oldest": facts["oldest"] or "-",
        "limit": f"{limit}B of statistics, unused for {age} days at most",
        "beyond": f"{compact(facts['superfluous'])}B, which the next run removes",
    }
    return [aligned(found)]


def cache_line(facts: Mapping[str, Any]) -> str:
    """Its place and size."""
    return f"{facts['folder']}, {compact(facts['bytes'])}B"
