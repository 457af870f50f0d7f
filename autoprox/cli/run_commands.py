"""The commands that make a run, and `autoprox resume`, which continues any of them."""

from collections.abc import Iterator
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from autoprox.cli.command_factory import (
    call_with_progress,
    flags,
    option_parameter,
    show_summary,
    with_signature,
)
from autoprox.cli.common_flags import Debug, Json, Quiet
from autoprox.cli.help_layout import DISCOVER, EVALUATE, SEARCH, SUPERNETS
from autoprox.configurations.commands import (
    CONFIGURATIONS,
    CompareConfig,
    CurveConfig,
    EvolveConfig,
    RankConfig,
    RediscoverConfig,
    SearchConfig,
)
from autoprox.configurations.shared_options import TaskConfig
from autoprox.configurations.supernets import PrenasConfig, S3Config
from autoprox.declared_options import Option

RunFolder = Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)]
Force = Annotated[
    bool, typer.Option(help="Go on although versions, or what the run reads, have changed.")
]


RUN_COMMANDS: tuple[tuple[str, type[TaskConfig], str], ...] = (
    ("evolve", EvolveConfig, DISCOVER),
    ("rediscover", RediscoverConfig, DISCOVER),
    ("rank", RankConfig, EVALUATE),
    ("compare", CompareConfig, EVALUATE),
    ("curve", CurveConfig, EVALUATE),
    ("search", SearchConfig, SEARCH),
    ("s3", S3Config, SUPERNETS),
    ("prenas", PrenasConfig, SUPERNETS),
)
RESUME_EXAMPLES = (
    "resume runs/20260102T030405Z-mine",
    "resume runs/20260102T030405Z-mine --workers 8",
    "resume runs/20260102T030405Z-mine --force --json",
)


def _changeable_options() -> Iterator[tuple[str, FieldInfo, Option]]:
    """Yield the options of all commands that a resumed run may change, each once."""
    seen: set[str] = set()
    for config in CONFIGURATIONS.values():
        for name, field, option in config.described():
            if (option.resource or option.code) and name not in seen:
                seen.add(name)
                yield name, field, replace(option, default="as before")


def resume_run(**options: Any) -> None:
    """Continue a run of any command as if it had never stopped, or show a finished one."""
    from autoprox import runner
    from autoprox.runs.folder import Run  # with torch, which takes seconds to import

    run, force, quiet = (options[name] for name in ("run", "force", "quiet"))
    given = {
        name: option.read(options[name]) if option.read else options[name]
        for name, _, option in _changeable_options()
        if options[name] is not None
    }
    kind = Run.open(run).kind
    summary = call_with_progress(
        lambda progress: runner.resume_run(run, progress, force=force, **given), run, quiet
    )
    show_summary(kind, summary, options["json"])


with_signature(
    resume_run,
    Parameter("run", Parameter.POSITIONAL_OR_KEYWORD, annotation=RunFolder),
    *(option_parameter(name, field, option) for name, field, option in _changeable_options()),
    *flags(force=Force, quiet=Quiet, json=Json, debug=Debug),
)
