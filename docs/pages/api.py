"""The reference of the Python functions, from their signatures and docstrings."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import autoprox
from autoprox import loaded_runs
from autoprox.commands.task_interface import task_class_for_kind
from autoprox.runs.summary import Summary

from . import text
from .text import block, code, table

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
    given = signature(name.rpartition(".")[2], called)
    rows = [
        (code(own.name), code(plain(own.annotation)), default(own), described[own.name])
        for own in parameters.values()
    ]
    return "\n\n".join([f"## {name}", *about, block("text", given), table(HEADINGS, rows)])


def documented(called: Any) -> tuple[list[str], dict[str, str]]:
    """Return the paragraphs of a docstring, and the texts on the parameters that end it."""
    paragraphs = (inspect.getdoc(called) or "").split("\n\n")
    if not re.match(r"\w+: ", paragraphs[-1]):
        return paragraphs, {}
    lines = re.sub(r"\n\s+", " ", paragraphs[-1]).split("\n")
    pairs = (line.partition(": ") for line in lines)
    return paragraphs[:-1], {name: about for name, _, about in pairs}


def default(one: inspect.Parameter) -> str:
    """Write the default of a parameter."""
    return "required" if one.default is one.empty else code(repr(one.default))


def signature(name: str, called: Any) -> str:
    """The call as it is written, a line for each parameter where there are many."""
    found = inspect.signature(called)
    parts = [written(one) for one in found.parameters.values()]
    if any(p.kind is p.KEYWORD_ONLY for p in found.parameters.values()) and "*" not in parts:
        first = [p.kind for p in found.parameters.values()].index(inspect.Parameter.KEYWORD_ONLY)
        parts.insert(first, "*")
    result = plain(found.return_annotation)
    line = f"{name}({', '.join(parts)}) -> {result}"
    if len(line) <= 96:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f") -> {result}"])


def written(one: inspect.Parameter) -> str:
    """A parameter with its type and default."""
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{one.name}: {plain(one.annotation)}{default}"


def plain(annotation: Any) -> str:
    """A type as a reader writes it."""
    name = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:collections\.abc|autoprox|typing|pathlib)\.(?:\w+\.)*", "", name)


def kind_of_run(kind: type[loaded_runs.LoadedRun], summary: type[Summary] | None = None) -> str:
    """Describe a class of runs, its members, and the fields of its summary."""
    lines = [f"- {code(name)}: {about}" for name, about in members(kind)]
    if summary is not None:
        fields = ", ".join(map(code, summary.model_fields))
        lines.insert(0, f"- `summary`: a `{summary.__name__}` of {fields}")
    return "\n\n".join([f"### {kind.__name__}", inspect.getdoc(kind) or "", "\n".join(lines)])


def members(kind: type[loaded_runs.LoadedRun]) -> Iterator[tuple[str, str]]:
    """Yield the members that a class has itself, with the first line on each."""
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            about = (inspect.getdoc(member) or "").split("\n")[0]
            yield name if isinstance(member, property) else f"{name}()", about
