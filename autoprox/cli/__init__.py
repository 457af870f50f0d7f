"""The command line, a file for each command."""

from autoprox.cli.app import app, main

__all__ = ["app", "main"]
