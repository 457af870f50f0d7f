"""A run, or several, as one HTML file that needs nothing else."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autoprox.files.atomic import write_text
from autoprox.files.program import command_line
from autoprox.report.html import evolution, others, ranking, search
from autoprox.report.html.comparison import comparison
from autoprox.report.html.elements import (
    Markup,
    element,
    facts,
    joined,
    note,
    part,
    section,
    setting,
)
from autoprox.report.html.style import CSS
from autoprox.report.html.told import Told
from autoprox.report.terminal.summaries import report_of
from autoprox.runs.folder import REPORT, as_written

Section = Callable[[Told], Markup]


def results(told: Told) -> Markup:
    """What the command printed, without the formula, which stands elsewhere."""
    summary = {"run": str(told.run.path), **told.summary}
    formulas = (summary.get("formula"), summary.get("expression"))
    parts = (own for own in report_of(told.kind, summary) if own not in formulas)
    return section("Results", *map(part, parts))


BEFORE: Mapping[str, Sequence[Section]] = {  # by the run's kind, before the results
    "evolve": (evolution.formulas, evolution.scatters),
    "search": (search.formula, search.architecture, search.candidates),
    "rank": (ranking.heat,),
    "rediscover": (others.found,),
    "build": (others.table_scores,),
    "supernet-eval": (others.table_scores,),
    "s3": (others.spaces, others.best),
}
AFTER: Mapping[str, Sequence[Section]] = {
    "evolve": (evolution.correlations, evolution.fronts, evolution.fitness),
    "rank": (ranking.correlations,),
    "rediscover": (others.correlation,),
    "supernet-train": (others.losses,),
}
UNFINISHED: Mapping[str, Sequence[Section]] = {  # what needs no summary
    "evolve": (evolution.fitness,),
    "search": (search.candidates,),
    "rediscover": (others.correlation,),
    "supernet-train": (others.losses,),
}


def write_page(path: Path) -> Path:
    """Write the page of a finished run into its folder."""
    out = path / REPORT
    write_text(out, page_of([path]))
    return out


def page_of(paths: Sequence[Path]) -> str:
    """The page of one run, or of several with a comparison in front."""
    runs = [Told.of(path) for path in paths]
    articles = []
    for told in runs:
        with as_written(told.run.path):
            articles.append(_article(told))
    if len(runs) > 1:
        with as_written(", ".join(map(str, paths))):
            front = element("article", element("h1", f"{len(runs)} runs"), comparison(runs))
        articles = [front, *articles]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    head = joined(
        [
            Markup('<meta charset="utf-8"/>'),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", f"autoprox: {title}"),
            element("style", Markup(CSS)),
        ]
    )
    whole = element("html", element("head", head), element("body", *articles), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def _article(told: Told) -> Markup:
    title = element("h1", told.name)
    kind = element("p", f"A run of {told.command}", class_="note")
    sections = [*BEFORE.get(told.kind, ()), results, *AFTER.get(told.kind, ())]
    shown = [
        attempted(m, told) for m in (sections if told.finished else UNFINISHED.get(told.kind, ()))
    ]
    if not told.finished:
        resume = command_line("resume", told.run.path)
        shown.insert(
            0, joined([note("It isn't finished; this goes on with it:"), element("pre", resume)])
        )
    return element("article", title, kind, *shown, _settings(told), _repeat(told), id=told.name)


def attempted(made: Section, told: Told) -> Markup:
    """A section, or which part of the run's files it lacks: other versions wrote other files."""
    try:
        return made(told)
    except KeyError as error:
        title = made.__name__.strip("_").replace("_", " ").capitalize()
        return section(title, note(f"This run's files lack {error}: another version wrote them"))


def _settings(told: Told) -> Markup:
    """Every option of the run, and what it ran on."""
    where = {
        name: setting(value) for name, value in told.environment.items() if name not in ("command",)
    }
    return section(
        "Every setting",
        facts({name: setting(value) for name, value in told.config.items()}),
        element("details", element("summary", "The environment"), facts(where)),
    )


def _repeat(told: Told) -> Markup:
    """The command as it was given."""
    command = told.environment.get("command") or [""]
    if Path(str(command[0])).stem not in ("autoprox", "__main__"):
        return section("How to repeat it", note("It was begun from Python, with these settings"))
    given = shlex.join(["autoprox", *map(str, command[1:])])
    return section("How to repeat it", element("pre", given))
