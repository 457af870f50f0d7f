"""The reference of all commands and their options, from the declarations that make them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo
from typer.main import get_command

from autoprox.cli import app
from autoprox.cli.help_layout import HELP_ALL
from autoprox.configurations.commands import CONFIGURATIONS, SuggestConfig
from autoprox.configurations.shared_options import CommandConfig
from autoprox.declared_options import Option, rule_of
from autoprox.runs.folder import COMMANDS

from . import text
from .text import block, code, table

HEADINGS = ("option", "value", "default", "meaning")
CONFIGURED: dict[str, type[CommandConfig]] = {
    **{COMMANDS.get(kind, kind): config for kind, config in CONFIGURATIONS.items()},
    "suggest": SuggestConfig,
}


class Declared(NamedTuple):
    """A command as it is declared."""

    function: Callable[..., Any]
    examples: list[str]


def all_commands() -> dict[str, Declared]:
    """Every command by its name."""
    groups = [
        ("", app),
        *((f"{g.typer_instance.info.name} ", g.typer_instance) for g in app.registered_groups),
    ]
    return {
        f"{prefix}{(own.name or own.callback.__name__).rstrip('_')}": Declared(
            own.callback, (own.epilog or "").split("\n\n")[1:]
        )
        for prefix, group in groups
        for own in group.registered_commands
        if own.callback is not None
    }


def default_of(field: FieldInfo, option: Option) -> str:
    """What holds where an option isn't given."""
    if field.is_required():
        return "required"
    return option.default or code(str(field.default))


def configured(config: type[CommandConfig]) -> Iterator[tuple[str, str, str, str]]:
    """The options of a task; from Python they are keywords, with _ for -."""
    for name, field, option in config.described():
        if option.listed:
            flag = name.upper() if option.argument else f"--{name.replace('_', '-')}"
            choices = ", ".join(map(code, option.choices))
            kind = choices or without_article(rule_of(field))
            yield code(flag), kind, default_of(field, option), option.help


def without_article(rule: str) -> str:
    """Shorten the rule of an error for a table: "a whole number >= 1" to "whole number >= 1"."""
    return rule.removeprefix("a ").replace(" or a ", " or ")


def others(name: str, known: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """The options of a command that aren't those of a task, as the command line reads them."""
    for one in parsed_command(name).params:
        if one.name not in known | {HELP_ALL}:
            argument = one.param_type_name == "argument"
            shown = one.metavar or str(one.name).upper() if argument else one.opts[0]
            default = "required" if one.required else default_said(one)
            yield code(shown), kind_of(one), default, getattr(one, "help", "") or ""


def parsed_command(name: str) -> Any:
    """The command as the command line reads it."""
    found: Any = get_command(app)
    for word in name.split():
        found = found.commands[word]
    return found


def kind_of(one: Any) -> str:
    """What a value must be."""
    if getattr(one, "is_flag", False):
        return "flag"
    if "|" in (one.metavar or "") and one.metavar.islower():
        return ", ".join(map(code, one.metavar.split("|")))
    if one.multiple or one.nargs != 1:
        return "text, repeatable"
    return {int: "whole number"}.get(type(one.default), "text or path")


def default_said(one: Any) -> str:
    """What holds where an option isn't given."""
    if isinstance(getattr(one, "show_default", None), str):
        return str(one.show_default)
    return "" if one.default in (None, False, "") else code(str(one.default))


def section(name: str, command: Declared) -> str:
    """A command: what it does, an example, its options."""
    config = CONFIGURED.get(name)
    known = set(config.named(listed=True)) if config else set()
    own = configured(config) if config else ()
    rows = [*own, *others(name, known)]
    about = " ".join((inspect.getdoc(command.function) or "").split())
    lines = block("text", "\n".join(command.examples))
    return "\n\n".join([f"## autoprox {name}", about, lines, table(HEADINGS, rows)])


def page() -> str:
    """The whole page."""
    return text.page(
        "Commands and options",
        "Every command has `--help` and `--json` ([file formats](files.md)). In Python, the "
        "options of commands that make a run are keywords, with `_` for `-` ([Python](api.md)). "
        "The exit code is 2 for wrong use, 1 for a failure, and 130 for Ctrl-C.",
        *(section(name, command) for name, command in all_commands().items()),
    )
