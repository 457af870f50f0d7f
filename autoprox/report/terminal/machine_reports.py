"""The reports of the machine and of the cache."""

from autoprox.commands.cache import CacheFacts
from autoprox.commands.doctor import MachineFacts
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.files.rerun_command import rerun_command_line
from autoprox.report.terminal.layout import Part, aligned

TORCHVISION = "torchvision::"  # of a torchvision that was built for another torch
WORKAROUND = " (autoprox declares these operators itself, and can use it)"


def machine_report(facts: MachineFacts) -> list[Part]:
    """Show the facts, a line each, and the problems."""
    present = [name for name, there in facts.benchmarks.items() if there]
    lacking = [name for name, there in facts.benchmarks.items() if not there]
    lines = {
        "python": f"{facts.python} on {facts.platform}",
        "packages": ", ".join(f"{name} {version}" for name, version in facts.packages.items()),
        "device": f"{facts.device}, {facts.threads} threads",
        "data": ", ".join(present) or "none",
        "cache": f"{facts.cache.folder}, {format_with_unit(facts.cache.bytes)}B",
        "runs": facts.runs.folder,
    }
    if lacking:
        lines["no data of"] = (
            f"{', '.join(lacking)} ({rerun_command_line('bench', 'fetch', 'NAME')})"
        )
    problems = [f"Not writable: {o.folder}" for o in (facts.cache, facts.runs) if not o.writable]
    problems += [
        f"{name} can't be imported: {reason}" + (WORKAROUND if TORCHVISION in reason else "")
        for name, reason in facts.imports.items()
    ]
    return [aligned(lines), "\n".join(problems) or "No problems found."]


def cache_report(facts: CacheFacts) -> list[Part]:
    """Show the folder, its size and that of its parts, its bounds, and the oldest use."""
    parts = ", ".join(f"{name} {format_with_unit(size)}B" for name, size in facts.parts.items())
    lines = {
        "cache": facts.folder,
        "size": f"{format_with_unit(facts.bytes)}B in {facts.files} files",
        "parts": parts or "none",
        "oldest": facts.oldest or "-",
        "limit": f"{format_with_unit(facts.limit)}B of statistics, "
        f"unused for {facts.age} days at most",
        "beyond": f"{format_with_unit(facts.superfluous)}B, which the next run removes",
    }
    return [aligned(lines)]
