"""Commands, each done by a fork of a process that has imported all: seconds less for each of them.

    python tests/proofs/warm.py            # a line of JSON in for each command, one out at its end

The child is the program itself, with streams, folder, environment and session of its own. A request
may name a signal, and after how many seconds of CPU the child gets it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

INTERVAL = 0.02  # seconds between two looks at a child
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def main() -> None:
    """Answer requests; a child leaves the loop, and is the program."""
    from autoprox.configurations.commands import CONFIGURATIONS

    tasks = [config.task.partition(":")[0] for config in CONFIGURATIONS.values()]
    late = [
        *("cli", "report.html.page_rendering"),
        *("report.terminal.run_report_by_kind", "report.terminal.progress_display"),
        "report.terminal.run_lists",
    ]
    for module in [*tasks, *(f"autoprox.{name}" for name in late), "torch._dynamo"]:
        import_module(module)
    from autoprox.__main__ import program

    for line in sys.stdin:
        request = json.loads(line)
        if (child := os.fork()) == 0:
            become(request)
            program()
            return
        print(json.dumps(ended(child, request)), flush=True)


def become(request: dict[str, Any]) -> None:
    """Make this process that of the command."""
    os.setsid()
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    streams = (os.devnull, os.O_RDONLY), ("out", WRITING), ("err", WRITING)
    for number, (path, flags) in enumerate(streams):
        os.dup2(os.open(path, flags), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["autoprox", *request["arguments"]]


def ended(child: int, request: dict[str, Any]) -> dict[str, Any]:
    """How a child ends: by the signal, where it gets one; one that doesn't end is killed."""
    number, after, begun = request["signal"], request["after"], time.monotonic()
    sent = hung = False
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        if number and not sent and cpu_seconds(child) >= after:
            stop(child, number)
            sent = True
        if not hung and time.monotonic() - begun > request["limit"]:
            os.kill(child, signal.SIGKILL)
            hung = True
        time.sleep(INTERVAL)
    seconds = used.ru_utime + used.ru_stime
    code = os.waitstatus_to_exitcode(status)  # as subprocess has it: of a signal its number, < 0
    return {"code": code, "sent": sent, "hung": hung, "seconds": seconds, "pid": child}


def stop(child: int, number: int) -> None:
    """Send a signal: an interrupt goes to all processes of the command, as from a terminal."""
    if number == signal.SIGINT and os.getpgid(child) == child:
        os.killpg(child, number)
    else:
        os.kill(child, number)


def cpu_seconds(session: int) -> float:
    """What the processes of a session have used of CPUs: the load of the machine moves no kill."""
    ticks = 0
    for status in of_session(session):
        ticks += sum(map(int, status[11:15]))  # its own, and of its children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def of_session(session: int) -> Iterator[list[str]]:
    """The fields of the status of each process of a session that lives, from its state on."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            yield fields


if __name__ == "__main__":
    main()
