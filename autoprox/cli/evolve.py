"""The command `autoprox evolve`."""

from autoprox.cli.command import command
from autoprox.configurations.commands import EvolveConfig

evolve = command(
    EvolveConfig,
    """Discover a proxy: the formula that ranks untrained networks as training them would.

    It is evolved on some of a benchmark's architectures and tested on the
    others, beside the parameter count, the FLOPs and a regression on the choices.
    With --spaces it is one formula for several spaces.
    All is kept in a new folder; with --resume, an interrupted run goes on.
    """,
)
