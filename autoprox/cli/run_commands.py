"""The commands that make a run: evolve, rank, compare, search, rediscover, prenas, s3."""

from autoprox.cli.command_factory import command
from autoprox.configurations.commands import (
    CompareConfig,
    EvolveConfig,
    RankConfig,
    RediscoverConfig,
    SearchConfig,
)
from autoprox.configurations.supernets import PrenasConfig, S3Config

evolve = command(
    EvolveConfig,
    """Discover a proxy: a formula that ranks untrained networks as training would.

    It is evolved on some of a benchmark's architectures and tested on the
    others, next to the parameter count, the FLOPs and a ridge regression.
    With --spaces it is one formula for several spaces.
    Everything is kept in a new folder; `autoprox resume` goes on with an
    interrupted run.
    """,
)
rank = command(
    RankConfig,
    """Rank proxies side by side by how well each orders a benchmark's networks.

    Every proxy is measured on all networks, with each seed. The run's folder has
    the table as JSON, CSV and Markdown. `autoprox resume` goes on with a killed
    ranking.
    """,
)
compare = command(
    CompareConfig,
    """Compare discoveries on the networks of their benchmark that none was evolved on.

    Shown are their taus, overall and with size controlled for, and the taus of
    their scores with each other's.
    """,
)
search = command(
    SearchConfig,
    """Search the best architectures of a space by a proxy, without any training.

    Every candidate is kept in a new folder with its score. `autoprox resume` goes
    on with an interrupted search, and measures nothing twice.
    """,
)
rediscover = command(
    RediscoverConfig,
    """Rediscover a known proxy from its scores of small networks alone.

    Formulas are evolved until one fits and is shown to be the proxy: by its
    canonical form, by sympy, or by the scores of 64 new networks of another
    space. The exit code is 1 if none is found in time.
    """,
)
prenas = command(
    PrenasConfig,
    """Prefer architectures before any training, as PreNAS does, and train them in one supernet.

    One random supernet scores all isomers; below each size the one with the
    highest saliency is preferred. With --train, the supernet is trained on the
    preferred architectures alone.
    """,
)
s3 = command(
    S3Config,
    """Search the search space, and then the best network in it.

    In each round a supernet of the space is trained, random networks are measured
    with its weights, and the options of every dimension and stage move towards
    less error. `autoprox resume` goes on with a stopped run.
    """,
)
