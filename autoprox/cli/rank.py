"""The command `autoprox rank`."""

from autoprox.cli.command import command
from autoprox.configurations.commands import RankConfig

rank = command(
    RankConfig,
    """Rank proxies side by side: how well each orders a benchmark's networks.

    Every proxy is measured on all networks, with each seed; the run's folder has
    the table as JSON, CSV and Markdown. A killed ranking goes on with --resume.
    """,
)
