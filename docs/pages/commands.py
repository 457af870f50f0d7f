"""The reference of all commands and their options, from the declarations that make them."""

import inspect
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo

from autoprox.cli import app
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import TaskConfig
from autoprox.declared_options import Option, rule_of
from autoprox.runs.folder import COMMANDS

from . import text
from .text import code, table

HEADINGS = ("option", "must be", "default", "what")
KINDS = {"str": "a text", "Path": "a path", "int": "a whole number", "bool": "a flag"}
CONFIGURED = {COMMANDS.get(kind, kind): config for kind, config in CONFIGURATIONS.items()}


class Declared(NamedTuple):
    """A command as it is declared."""

    function: Callable[..., Any]
    example: str


def all_commands() -> dict[str, Declared]:
    """Every command by its name."""
    groups = [
        ("", app),
        *((f"{g.typer_instance.info.name} ", g.typer_instance) for g in app.registered_groups),
    ]
    return {
        f"{prefix}{(own.name or own.callback.__name__).rstrip('_')}": Declared(
            own.callback, (own.epilog or "").removeprefix("Example: ")
        )
        for prefix, group in groups
        for own in group.registered_commands
        if own.callback is not None
    }


def default_of(field: FieldInfo, option: Option) -> str:
    """What holds where an option isn't given."""
    if field.is_required():
        return "needed"
    return option.default or code(str(field.default))


def configured(config: type[TaskConfig]) -> Iterator[tuple[str, str, str, str]]:
    """The options of a task; from Python they are keywords, with _ for -."""
    for name, field, option in config.described():
        if option.listed:
            flag = name.upper() if option.argument else f"--{name.replace('_', '-')}"
            yield code(flag), rule_of(field), default_of(field, option), option.help


def others(function: Callable[..., Any], known: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """The options that a command has beside those of a task."""
    for name, one in inspect.signature(function).parameters.items():
        said = get_args(one.annotation)[1:]
        if name not in known and said:
            [info] = said
            argument = isinstance(info, ArgumentInfo)
            flag = f"--{name.rstrip('_').replace('_', '-')}"
            named = [own for own in info.param_decls or () if own.startswith("--")]
            shown = (info.metavar or name.upper()) if argument else (named or [flag])[0]
            yield code(shown), kind_of(one), default_said(one, info), info.help or ""


def kind_of(one: inspect.Parameter) -> str:
    """What a value must be."""
    kind = get_args(one.annotation)[0]
    plain = next((own for own in get_args(kind) if own is not NoneType), kind)
    if get_origin(kind) is list or get_origin(plain) is list:
        return "several"
    return KINDS[plain.__name__]


def default_said(one: inspect.Parameter, info: Any) -> str:
    """What holds where an option isn't given."""
    if isinstance(info.show_default, str):
        return info.show_default
    if one.default is one.empty:
        return "needed"
    return "" if one.default in (None, False, "") else code(str(one.default))


def section(name: str, command: Declared) -> str:
    """A command: what it does, an example, its options."""
    config = CONFIGURED.get(name)
    known = set(config.named(listed=True)) if config else set()
    own = configured(config) if config else ()
    rows = [*own, *others(command.function, known)]
    about = " ".join((inspect.getdoc(command.function) or "").split())
    example = f"Example: {code(command.example)}"
    return "\n\n".join([f"## autoprox {name}", about, example, table(HEADINGS, rows)])


def page() -> str:
    """The whole page."""
    return text.page(
        "Commands and options",
        "Every command has `--help`, every result `--json` ([file formats](files.md)). From "
        "Python the options of a task are keywords, with `_` for `-` ([Python](api.md)). Wrong "
        "use ends with exit code 2, a failure with 1, Ctrl-C with 130.",
        *(section(name, command) for name, command in all_commands().items()),
    )
