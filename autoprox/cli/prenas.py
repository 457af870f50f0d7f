"""The command `autoprox prenas`."""

from autoprox.cli.command import command
from autoprox.configurations.supernets import PrenasConfig

prenas = command(
    PrenasConfig,
    """Prefer architectures before any training, as PreNAS does, and train them in one supernet.

    One random supernet scores all isomers; of those below each size the most
    salient is preferred. With --train, the supernet is trained on them alone.
    """,
)
