"""The command `autoprox compare`."""

from autoprox.cli.command import command
from autoprox.configurations.commands import CompareConfig

compare = command(
    CompareConfig,
    """Compare discoveries on the networks of their benchmark that none was evolved on.

    Their taus, at equal size and with the parameters, and those of their scores
    with each other's.
    """,
)
