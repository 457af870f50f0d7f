"""The help of every command, and its options."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from helpers.commands import Command

import autoprox
from autoprox import cli
from autoprox.cli.command_factory import command
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.configurations.shared_options import TaskConfig


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


@pytest.mark.parametrize("path", [*commands(typer.main.get_command(cli.app))], ids=" ".join)
def test_every_help_has_an_example(path: tuple[str, ...], run: Command) -> None:
    result = run(*path, "--help")
    assert result.code == 0
    assert "Example: autoprox" in result.out
    assert "\x1b" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_no_arguments(run: Command) -> None:
    assert run() == run("--help")


def test_importing_is_quick() -> None:
    """What takes long to import isn't, for the help or for the package."""
    code = (
        "import sys; from autoprox.cli import main\n"
        "try: main(['evolve', '--help'])\n"
        "except SystemExit:\n"
        "    slow = ('torch', 'numpy', 'sympy', 'sklearn')\n"
        "    print([m for m in slow if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version(run: Command) -> None:
    assert run("--version").out == f"autoprox {autoprox.__version__}\n"


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=list(CONFIGURATIONS))
def test_options_are_those_of_the_configuration(config: type[TaskConfig]) -> None:
    """Each is an option, with the default that the help states, and what isn't given isn't set."""
    made = typer.Typer()
    made.command()(command(config))
    parameters = {p.name: p for p in typer.main.get_command(made).params}
    given = {"resume", "json", "debug", "quiet", "dry_run", "install_completion", "show_completion"}
    assert set(parameters) - given == set(config.named(listed=True))
    for name, field, option in config.described():
        if option.listed and option.default is None and not field.is_required():
            assert parameters[name].default == field.default
