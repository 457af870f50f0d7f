"""The reference of the Python functions, from their signatures and docstrings."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import autoprox
from autoprox import loaded_runs
from autoprox.commands.task_interface import task_class_for_kind
from autoprox.declared_options import Option
from autoprox.runs.summary import Summary

from . import text
from .commands import CONFIGURED
from .text import block, code, table

REPEATED = re.compile(r" Repeat it for more[^.]*\.")  # a list takes all of them
HEADINGS = ("parameter", "type", "default", "meaning")


def page() -> str:
    """The whole page."""
    members = {name: getattr(autoprox, name) for name in autoprox.__all__}
    functions = [name for name, own in members.items() if inspect.isfunction(own)]
    models = {kind: task_class_for_kind(kind).summary for kind in loaded_runs.RESULTS}
    return text.page(
        "Python",
        "The functions of `import autoprox`. Importing it is quick, because torch is only imported "
        "by the first call. The parameters of tasks are the options of the commands "
        "([reference](options.md)).",
        *(function(f"autoprox.{name}", members[name]) for name in functions),
        "## Runs",
        "Tasks and `load_run` return a run. Each class also has the members of `LoadedRun`. The "
        "fields of its `summary` are the keys of the document that the command prints with "
        "`--json` ([file formats](files.md)).",
        kind_of_run(loaded_runs.LoadedRun),
        *(kind_of_run(own, models[kind]) for kind, own in loaded_runs.RESULTS.items()),
    )


def function(name: str, called: Any) -> str:
    """Describe a function: what it does, its signature, its parameters."""
    about, described = documented(called)
    parameters = inspect.signature(called).parameters
    if missing := set(parameters) ^ set(described):
        raise LookupError(f"{name} must describe its parameters, but not so {sorted(missing)}")
    own_name = name.rpartition(".")[2]
    options = options_of(own_name)
    rows = [
        (code(own.name), code(plain(own.annotation)), default(own, options), described[own.name])
        for own in parameters.values()
        if own.name not in options or options[own.name].listed or own.name == "progress"
    ]
    given = signature(own_name, called)
    return "\n\n".join([f"## {name}", *about, block("text", given), table(HEADINGS, rows)])


def options_of(name: str) -> dict[str, Option]:
    """Return the options of a function that is a command, with their defaults in words."""
    config = CONFIGURED.get(name.replace("_", " "))
    return {own: option for own, _, option in config.described()} if config else {}


def documented(called: Any) -> tuple[list[str], dict[str, str]]:
    """Return the paragraphs of a docstring, and the texts on the parameters that end it."""
    paragraphs = (inspect.getdoc(called) or "").split("\n\n")
    if not re.match(r"\w+: ", paragraphs[-1]):
        return paragraphs, {}
    lines = re.sub(r"\n\s+", " ", paragraphs[-1]).split("\n")
    pairs = (line.partition(": ") for line in lines)
    return paragraphs[:-1], {name: REPEATED.sub("", about) for name, _, about in pairs}


def default(one: inspect.Parameter, options: Mapping[str, Option]) -> str:
    """Write the default of a parameter, in words if its value doesn't say what it means."""
    if one.default is one.empty:
        return "required"
    words = options[one.name].default if one.name in options else None
    return words or code(repr(one.default))


def signature(name: str, called: Any) -> str:
    """Return the call as it is written; that of a command only with what is required."""
    found = inspect.signature(called)
    parameters = [*found.parameters.values()]
    if name.replace("_", " ") in CONFIGURED:
        parts = [f"{own.name}=..." for own in parameters if own.default is own.empty]
        return f"{name}({', '.join([*parts, '**options'])}) -> {plain(found.return_annotation)}"
    parts = [written(own) for own in parameters]
    kinds = [own.kind for own in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = plain(found.return_annotation)
    line = f"{name}({', '.join(parts)}) -> {result}"
    if len(line) <= 96:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f") -> {result}"])


def written(one: inspect.Parameter) -> str:
    """Return a parameter with its type and default."""
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{one.name}: {plain(one.annotation)}{default}"


def plain(annotation: Any) -> str:
    """Return a type as a reader writes it."""
    name = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:collections\.abc|autoprox|typing|pathlib)\.(?:\w+\.)*", "", name)


def kind_of_run(kind: type[loaded_runs.LoadedRun], summary: type[Summary] | None = None) -> str:
    """Describe a class of runs, its members, and the fields of its summary."""
    lines = [f"- {code(name)}: {about}" for name, about in members(kind)]
    if summary is not None:
        fields = ", ".join(map(code, summary.model_fields))
        lines.insert(0, f"- `summary`: `{summary.__name__}`, with {fields}")
    return "\n\n".join([f"### {kind.__name__}", inspect.getdoc(kind) or "", "\n".join(lines)])


def members(kind: type[loaded_runs.LoadedRun]) -> Iterator[tuple[str, str]]:
    """Yield the members that a class has itself, with the first line on each."""
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            about = (inspect.getdoc(member) or "").split("\n")[0]
            yield name if isinstance(member, property) else f"{name}()", about
