"""The command `autoprox s3`."""

from autoprox.cli.command import command
from autoprox.configurations.space_search import S3Config

s3 = command(
    S3Config,
    """Search the search space, and then the best network in it.

    In each round a supernet of the space is trained, random networks are measured
    with its weights, and the options of every dimension and stage move where the
    error falls. All is kept in a new folder; with --resume, a stopped run goes on.
    """,
)
