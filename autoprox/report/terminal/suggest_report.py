"""The report of suggested architectures."""

from autoprox.commands.suggest import Suggestions
from autoprox.files.atomic_writes import to_json
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.report.terminal.layout import Part, new_table, shortfall_parts


def suggest_report(found: Suggestions) -> list[Part]:
    """Show what was added, and a table of what to train next."""
    parts: list[Part] = []
    if found.added or found.known:
        known = f"; {found.known} were there already" if found.known else ""
        lines = [f"{found.added} results added to {found.table}{known}"]
        if found.not_suggested:
            lines.append(f"{found.not_suggested} of these weren't suggested; they are added too")
        parts.append("\n".join(lines))
    if found.suggestions:
        proxies = ", ".join(found.proxies) or "no proxy"
        parts.append(f"{found.space}: {found.labels} labels, {proxies}")
        if found.prior_alone:
            decides = "the proxies decide alone" if found.proxies else "the choices are spread out"
            parts.append(f"{found.prior_alone}: {decides}")
        table = new_table("choices", "params", "flops")
        for own in found.suggestions:
            sizes = (format_with_unit(own.params), format_with_unit(own.flops))
            table.add_row(to_json(own.choices), *sizes)
        parts.append(table)
        parts += shortfall_parts(found.shortfalls)
        parts.append(f"Written to {found.out}")
    return parts or [f"{found.table}: no results to add"]
