"""Writes options.md, the reference of all options: `python docs/make_options.py`."""

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from autoprox.options import Option, rule_of
from autoprox.runs.folder import COMMANDS
from autoprox.tasks.configurations import CONFIGURATIONS
from autoprox.tasks.shared import TaskConfig


def default_of(field: FieldInfo, option: Option) -> str:
    """What holds where an option isn't given."""
    if field.is_required():
        return "needed"
    return option.default or f"`{field.default}`"


def table(kind: str, config: type[TaskConfig]) -> Iterator[str]:
    """The lines on a command."""
    yield f"## autoprox {COMMANDS.get(kind, kind)}"
    yield ""
    yield "| option | keyword | must be | default | what |"
    yield "|---|---|---|---|---|"
    for name, field, option in config.described():
        if option.listed:
            flag = name.upper() if option.argument else f"--{name.replace('_', '-')}"
            rule, default = rule_of(field), default_of(field, option)
            yield f"| `{flag}` | `{name}` | {rule} | {default} | {option.help} |"
    yield ""


def reference() -> str:
    """The whole page."""
    lines = [
        "# Options",
        "",
        "Written by `docs/make_options.py` from `autoprox/tasks/configurations.py`.",
        "",
    ]
    for kind, config in CONFIGURATIONS.items():
        lines += table(kind, config)
    return "\n".join(lines)


if __name__ == "__main__":
    (Path(__file__).parent / "options.md").write_text(reference())
