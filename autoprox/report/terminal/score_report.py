"""The report of models' scores by a proxy."""

import re

from autoprox.commands.score import ModelScores, ScoredModel
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.report.terminal.layout import (
    Part,
    aligned,
    found_elsewhere,
    new_table,
    shortfall_parts,
    weights_differ,
)


def score_report(scores: ModelScores, layers: bool = False) -> list[Part]:
    """Show a table of the models, with the layers of each if they are wanted."""
    table = new_table("model", "params", "msa", "mlp", "score")
    for model in scores.models:
        domains = list(model.layers.values())
        counts = (str(domains.count(domain)) for domain in ("msa", "mlp"))
        table.add_row(model.model, format_with_unit(model.params), *counts, _number(model.score))
    parts: list[Part] = [table]
    if scores.ranks and len(scores.models) == 1:
        terms = {_number(value): text for text, value in scores.models[0].terms.items()}
        parts.append(
            "The proxy ranks models among each other, so that one alone has no score:\n"
            "add others by --compare. Its parts are\n" + aligned(terms)
        )
    if scores.evolved_with not in (None, scores.weights):
        parts.append(weights_differ("The proxy", str(scores.evolved_with), scores.weights))
    if scores.found_on is not None:
        parts.append(found_elsewhere("The proxy", scores.found_on))
    parts += shortfall_parts(scores.shortfalls)
    return [*parts, *map(_layers, scores.models)] if layers else parts


def _layers(model: ScoredModel) -> str:
    """List the layers by domain, those that differ only in their numbers on one line."""
    lines: dict[str, list[str]] = {}
    for name, domain in model.layers.items():
        lines.setdefault(f"{domain}  {re.sub(r'[0-9]+', '*', name)}", []).append(name)
    listed = (f"  {line}  ({len(names)})" for line, names in lines.items())
    family = f"family {model.family}" if model.family != "by pattern" else "by pattern"
    return "\n".join([f"{model.model}: {family}; {model.inputs}", *listed])


def _number(score: float | None) -> str:
    return "-" if score is None else f"{score:.6g}"
