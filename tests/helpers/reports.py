"""Reports as they are printed."""

PATHS = ("Run: ", "Report: ")  # they name folders, however long


def lines_without_commands(report: str) -> list[str]:
    """Return the lines of a report that are to fit the terminal's width."""
    lines = report.splitlines()
    commands = {index + 1 for index, line in enumerate(lines) if line == "Next:"}
    return [
        line
        for index, line in enumerate(lines)
        if index not in commands and not line.startswith(PATHS)
    ]
