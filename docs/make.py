"""Writes the documentation that follows from the code and the runs: `python docs/make.py`."""

from collections.abc import Iterator
from pathlib import Path

from pages import api, commands, language, plots, results, schemas, spaces, zoo

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"


def written() -> Iterator[tuple[Path, str]]:
    """Yield every file that is written, with its content."""
    yield DOCS / "options.md", commands.page()
    yield DOCS / "api.md", api.page()
    yield DOCS / "operations.md", language.operations()
    yield DOCS / "statistics.md", language.statistics()
    yield DOCS / "spaces.md", spaces.page()
    yield DOCS / "proxies.md", zoo.page()
    for name, drawing in plots.all_plots():
        yield DOCS / "plots" / f"{name}.svg", drawing
    for name, schema in schemas.all_schemas():
        yield DOCS / "schemas" / f"{name}.schema.json", schema
    yield README, results.with_results(README.read_text())


if __name__ == "__main__":
    for path, content in written():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
