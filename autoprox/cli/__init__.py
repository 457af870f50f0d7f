"""The command line, a file for each command.

May import: everything; what takes seconds to import only when a command runs.
Gives: `main`, and `app`, the typer application.
"""

from autoprox.cli.app import app, main

__all__ = ["app", "main"]
