"""Reports as they are printed."""

COMMANDS = ("Next: ", "Run: ", "Report: ")  # they name folders, however long


def lines_without_commands(report: str) -> list[str]:
    """Return the lines of a report that are to fit the terminal's width."""
    return [line for line in report.splitlines() if not line.startswith(COMMANDS)]
