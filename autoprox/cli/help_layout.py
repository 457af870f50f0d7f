"""The help of commands: the options needed most, --help-all, choices, groups and examples."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

DISCOVER, EVALUATE, SEARCH = "Discover", "Evaluate", "Search"
SUPERNETS, MANAGE = "Train supernets", "Manage"
HELP_ALL = "help_all"


def _without_type(parameters: list[Any]) -> list[Any]:
    """Leave out the type of flags, which take no value."""
    for one in parameters:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return parameters


class HelpfulCommand(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those that typer adds among them."""
        return _without_type(list(super().get_params(ctx)))


class HelpfulGroup(TyperGroup):
    """A group of commands, whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, those that typer adds among them."""
        return _without_type(list(super().get_params(ctx)))


def examples(lines: Sequence[str]) -> str:
    """Return the examples below a command's help, each on a line."""
    return "\n\n".join(["Examples:", *(f"autoprox {line}" for line in lines)])


def offered(choices: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of an option that has choices: shown, and completed by the shell.

    The command itself checks the value: a plug-in may have other choices.
    """
    names = tuple(choices)

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return {"metavar": "|".join(names), "autocompletion": complete}


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for one in context.command.params:
            if one.name != HELP_ALL:
                one.hidden = False  # type: ignore[attr-defined]
        print(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show all options."),
]
