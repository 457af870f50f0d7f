"""The help of every command, its options, choices and examples."""

import re
import shlex
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
from autoprox.cli.help_layout import DISCOVER, EVALUATE, MANAGE, SEARCH, SUPERNETS
from autoprox.configurations.commands import CONFIGURATIONS, PRESETS
from autoprox.configurations.shared_options import BACKENDS, TaskConfig
from autoprox.evolution.evolution_strategies import STRATEGIES
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES
from autoprox.oneshot.prenas.isomer_selection import NORMALISERS
from autoprox.oneshot.supernet.subnet_samplers import SUBNET_SAMPLERS

PROGRAM: Any = typer.main.get_command(cli.app)
GROUPS = (DISCOVER, EVALUATE, SEARCH, SUPERNETS, MANAGE)
REGISTERED = {  # the choices of an option, by another list of them
    ("evolve", "strategy"): STRATEGIES.registered,
    ("evolve", "preset"): PRESETS,
    ("evolve", "backend"): BACKENDS,
    ("search", "strategy"): SEARCH_STRATEGIES.registered,
    ("supernet-train", "sampler"): SUBNET_SAMPLERS.registered,
    ("prenas", "normaliser"): NORMALISERS,
}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


def found(path: tuple[str, ...]) -> Any:
    own = PROGRAM
    for name in path:
        own = own.commands[name]
    return own


def shown_options(text: str) -> list[str]:
    """The options of a help, each at the beginning of its row."""
    return re.findall(r"^│ (?:[* ]  )?(--[\w-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("path", [*commands(PROGRAM)], ids=" ".join)
def test_every_help_has_three_examples_that_parse(path: tuple[str, ...], run: Command) -> None:
    result = run(*path, "--help")
    assert result.code == 0
    assert "<bool>" not in result.out
    assert "\x1b" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    heading, *examples = found(path).epilog.split("\n\n")
    assert (heading, len(examples)) == ("Examples:", 3)
    assert len(set(examples)) == 3
    for example in examples:
        program, *words = shlex.split(example)
        own = PROGRAM
        while hasattr(own, "commands"):
            own = own.commands[words.pop(0)]
        assert program == "autoprox"
        context = own.make_context("autoprox", list(words))  # an error if it doesn't parse
        assert " ".join(path) in example
        if own.name in CONFIGURATIONS:
            given = {
                name: option.read(context.params[name]) if option.read else context.params[name]
                for name, _, option in CONFIGURATIONS[own.name].described()
                if option.listed and context.get_parameter_source(name).name != "DEFAULT"
            }
            CONFIGURATIONS[own.name](**given)


@pytest.mark.parametrize("name", ["evolve", "search", "rank"])
def test_help_shows_what_is_needed_first(name: str, run: Command) -> None:
    short, whole = (shown_options(run(name, more).out) for more in ("--help", "--help-all"))
    config = CONFIGURATIONS[name]
    first = [f"--{own.replace('_', '-')}" for own in config.common]
    assert short[: len(first)] == first
    assert len(short) <= 18
    every = {f"--{own.replace('_', '-')}" for own in config.named(listed=True)}
    assert every < set(whole)
    assert sorted(whole) == sorted(set(whole))


def test_root_help_has_groups(run: Command) -> None:
    lines = run("--help").out.splitlines()
    titles = [line.strip("╭─╮ ") for line in lines if line.startswith("╭")]
    assert titles == ["Options", *GROUPS]


@pytest.mark.parametrize("path", [*commands(PROGRAM)], ids=" ".join)
def test_required_options_have_no_default(path: tuple[str, ...]) -> None:
    for one in found(path).params:
        if one.required:
            assert one.default is None
            assert not isinstance(getattr(one, "show_default", None), str)


@pytest.mark.parametrize(("kind", "name"), REGISTERED)
def test_choices_are_those_that_exist(kind: str, name: str) -> None:
    [option] = [own for n, _, own in CONFIGURATIONS[kind].described() if n == name]
    assert option.choices == tuple(REGISTERED[kind, name])


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("evolve --ties tau", ["tau-b"]),
        ("search --strategy e", ["etas", "evolution"]),
        ("export arch x --format t", ["torch", "timm", "transformers"]),
    ],
)
def test_the_shell_completes_choices(words: str, completed: list[str]) -> None:
    *path, start = words.split()
    own: Any = PROGRAM
    option = path.pop()
    for name in path:
        own = getattr(own, "commands", {}).get(name, own)
    context = own.make_context("x", [], resilient_parsing=True)
    [one] = [param for param in own.params if option in param.opts]
    assert [item.value for item in one.shell_complete(context, start)] == completed


def test_a_wrong_choice_is_an_error_of_one_line(run: Command) -> None:
    wrong = run("evolve", "--ties", "nothing")
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert "unknown ties 'nothing'" in wrong.err


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
    flags = {"json", "debug", "quiet", "dry_run", "help_all"}
    given = {*flags, "install_completion", "show_completion"}
    assert set(parameters) - given == set(config.named(listed=True))
    for name, field, option in config.described():
        if option.listed and option.default is None and not field.is_required():
            assert parameters[name].default == field.default


MEANINGS = {  # of options whose help differs between commands: what all these texts speak of
    "--batch-size": "[Ii]mages",
    "--benchmark": "Benchmark",
    "--cache": "^Folder of",
    "--classes": "^Classes of",
    "--dataset": "^Dataset that sets the number of classes",
    "--datasets": "^Datasets",
    "--epochs": "^Passes over the",
    "--format": r"\bformat\b|^Format",
    "--images": "[Ii]mages",  # to measure on, or to train on
    "--mirror": "^Mirror half of the images",
    "--objective": "^What is maximised",
    "--out": r"\bto write\b|to write\.",
    "--parents": "^Parents",
    "--population": "[Pp]opulation",
    "--proxy": "proxy file|proxy files",
    "--samples": "^Random",
    "--seed": "^Seed of the",
    "--seeds": "^Number of seeds",
    "--sizes": "^Parameter",
    "--space": "^Search space",
    "--strategy": "^Strategy of the",
    "--subnets": "^Architectures",
    "--text": "text file, read byte by byte",
    "--weights": "draw",
    "--workers": "^Threads",
}


def test_an_option_has_one_meaning() -> None:
    """Commands may say more of an option, but none uses the name for something else."""
    texts: dict[str, set[str]] = {}
    for path in commands(PROGRAM):
        for own in found(path).params:
            for name in own.opts:
                if name.startswith("--") and own.help:
                    texts.setdefault(name, set()).add(own.help)
    several = {name: own for name, own in texts.items() if len(own) > 1}
    assert sorted(several) == sorted(MEANINGS)
    for name, own in several.items():
        assert [text for text in own if not re.search(MEANINGS[name], text)] == [], name
