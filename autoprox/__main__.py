"""The program `autoprox`, which ends on a signal in one line, and with that signal's exit code.

May import: errors, and the command line when it has begun to listen.
Gives: `program`.
"""

import os
import signal
import sys
import threading
from types import FrameType

from autoprox.errors import INTERRUPTED, TERMINATED, TerminatedError, ended_by


def program() -> None:
    """Run the command that the arguments ask for."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the program
    signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            from autoprox.cli import main  # takes part of a second, in which signals come too

            main()
        finally:  # all is said and written; Python's own end takes part of a second too
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
    except (KeyboardInterrupt, TerminatedError) as error:
        word, code = ended_by(error)
        print(word, file=sys.stderr)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
    busy = any("ThreadPool" in thread.name for thread in threading.enumerate())
    if code in (INTERRUPTED, TERMINATED) and busy:
        sys.stderr.flush()
        os._exit(code)  # without waiting for threads, whose work is on record or starts again
    sys.exit(code)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError


if __name__ == "__main__":
    program()
