"""The command `autoprox rediscover`."""

from autoprox.cli.command import command
from autoprox.configurations.commands import RediscoverConfig

rediscover = command(
    RediscoverConfig,
    """Rediscover a known proxy from its scores of small networks alone.

    Formulas are evolved until one fits and is shown to be the proxy: by its
    canonical form, by sympy, or by the scores of 64 fresh networks of another
    space. The exit code is 1 where none is found in time.
    """,
)
