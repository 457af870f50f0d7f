"""How large the page of a search is, how long it takes to write, and to draw in a browser.

    python tests/bench/page.py [--candidates 20000]

Prints JSON: bytes, the seconds of the writing, and those from the navigation to the load event and
to the first frame after it; without a browser only the first two.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.browser import browser, find_browser
from helpers.pages import search_run

from autoprox.report.html.page_rendering import render_page

FRAME = (
    "new Promise(told => requestAnimationFrame(() => requestAnimationFrame("
    "() => told(performance.now() / 1000))))"
)


def drawn(file: Path) -> dict[str, Any]:
    """The seconds that a browser takes from the navigation on."""
    with browser() as page:
        page.open(file)
        frame = page.value(FRAME)
        entry = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime / 1000"
        return {
            "loaded": round(page.value(entry), 3),
            "first_paint": round(page.value(paint), 3),
            "frame_after": round(frame, 3),
            "elements": page.value("document.querySelectorAll('*').length"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=20_000)
    candidates = parser.parse_args().candidates
    with TemporaryDirectory() as folder:
        run = search_run(Path(folder, "run"), candidates)
        started = time.process_time()
        page = render_page([run])
        seconds = time.process_time() - started
        file = Path(folder, "page.html")
        file.write_text(page)
        found: dict[str, Any] = {"candidates": candidates, "bytes": file.stat().st_size}
        found["cpu_seconds_of_writing"] = round(seconds, 3)
        found["drawn"] = drawn(file) if find_browser() else None
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
