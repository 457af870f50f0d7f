"""How long commands take until they answer: `python tests/bench/startup.py [--rounds N]`.

Prints JSON: of each command the least of some rounds, and the limit that it must keep.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time

import typer

from autoprox import cli

IMPORT, HELP, OTHERS = 0.3, 0.6, 1.0  # seconds


def calls() -> dict[str, tuple[list[str], float]]:
    """What is timed: an argument list for Python, and the limit."""
    app = typer.main.get_command(cli.app)
    found = {
        "import autoprox": (["-c", "import autoprox"], IMPORT),
        "autoprox --help": (["-m", "autoprox", "--help"], HELP),
        "autoprox bench list": (["-m", "autoprox", "bench", "list"], OTHERS),
    }
    for name, command in app.commands.items():  # type: ignore[attr-defined]
        paths = [[name], *([name, child] for child in getattr(command, "commands", {}))]
        for path in paths:
            words = [*path, "--help"]
            found[f"autoprox {' '.join(words)}"] = (["-m", "autoprox", *words], OTHERS)
    return found


def seconds(arguments: list[str], rounds: int) -> float:
    """The least of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Time all and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found = {
        name: {"seconds": round(seconds(arguments, rounds), 3), "limit": limit}
        for name, (arguments, limit) in calls().items()
    }
    result = {
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "command": ["tests/bench/startup.py", *sys.argv[1:]],
        "within_limits": all(row["seconds"] <= row["limit"] for row in found.values()),
        "seconds": found,
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
