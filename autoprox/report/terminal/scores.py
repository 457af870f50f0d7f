"""The scores of models by a proxy."""

import re
from collections.abc import Mapping
from typing import Any

from autoprox.files.human_readable import compact
from autoprox.report.terminal.layout import Part, aligned, new_table
from autoprox.report.terminal.shortfalls import shortfall_report


def score_report(found: Mapping[str, Any], layers: bool = False) -> list[Part]:
    """A table of the models, with the layers of each where they are wanted."""
    table = new_table("model")
    for heading in ("params", "msa", "mlp", "score"):
        table.add_column(heading, justify="right")
    for model in found["models"]:
        domains = list(model["layers"].values())
        counts = (str(domains.count(domain)) for domain in ("msa", "mlp"))
        table.add_row(model["model"], compact(model["params"]), *counts, _number(model["score"]))
    parts: list[Part] = [table]
    if found["ranks"] and len(found["models"]) == 1:
        [model] = found["models"]
        terms = {_number(value): text for text, value in model["terms"].items()}
        parts.append(
            "The proxy ranks models among each other, so that one alone has no score:\n"
            "add others by --compare. Its parts are\n" + aligned(terms)
        )
    parts += shortfall_report(found)
    if layers:
        parts += [_layers(model) for model in found["models"]]
    return parts


def _layers(model: Mapping[str, Any]) -> str:
    """The layers by domain, those that differ in their numbers on one line."""
    lines: dict[str, list[str]] = {}
    for name, domain in model["layers"].items():
        lines.setdefault(f"{domain}  {re.sub(r'[0-9]+', '*', name)}", []).append(name)
    listed = (f"  {line}  ({len(names)})" for line, names in lines.items())
    family = f"family {model['family']}" if model["family"] != "by pattern" else "by pattern"
    return "\n".join([f"{model['model']}: {family}; {model['inputs']}", *listed])


def _number(score: float | None) -> str:
    return "-" if score is None else f"{score:.6g}"
