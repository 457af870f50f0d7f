"""What mkdocs does to every page: navigation to results, a link to the terms, unbroken figures."""

import re
from pathlib import Path
from typing import Any

RESULTS = "Results"
INTERVAL = re.compile(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]")
PERCENT = re.compile(r"(?<=\d) %")
TERMS = "Terms are explained in the [glossary]({}glossary.md)."


def on_config(config: Any) -> Any:
    """Add the pages of docs/results that the navigation doesn't name."""
    known = str(config["nav"])
    [section] = [part[RESULTS] for part in config["nav"] if RESULTS in part]
    for path in sorted((Path(config["docs_dir"]) / "results").glob("*.md")):
        name = f"results/{path.name}"
        if name not in known:
            section.append(name)
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """End every page but the glossary with a link to it."""
    path = page.file.src_uri
    if path == "glossary.md":
        return markdown
    return f"{markdown}\n\n---\n\n{TERMS.format('../' * path.count('/'))}\n"


def on_page_content(content: str, **_: Any) -> str:
    """Keep a figure and its interval or unit on one line."""
    content = INTERVAL.sub(r'<span class="interval">\g<0></span>', content)
    return PERCENT.sub("\N{NO-BREAK SPACE}%", content)
