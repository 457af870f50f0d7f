"""The command `autoprox search`."""

from autoprox.cli.command import command
from autoprox.configurations.commands import SearchConfig

search = command(
    SearchConfig,
    """Search the best architectures of a space by a proxy, training nothing.

    Every candidate is kept in a new folder with its score; with --resume, an
    interrupted search goes on, and measures nothing twice.
    """,
)
