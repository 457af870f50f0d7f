"""A real browser, driven through a pipe: what a page draws, says and asks for."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from autoprox.report.html.report_formats import BROWSERS

OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions")
PATIENCE = 120.0  # seconds
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # a browser's pipe is 3 to read from, and 4 to write to


def find_browser() -> str | None:
    """The browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def browser() -> Iterator["Page"]:
    """An empty page of a browser that ends with it."""
    program = find_browser()
    if program is None:
        raise FileNotFoundError(f"a browser must be one of {', '.join(BROWSERS)}")
    (hears, write), (read, tells) = os.pipe(), os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        theirs = [fcntl(number, F_DUPFD, 10) for number in (hears, tells)]  # beyond 3 and 4
        options = [*OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        command = [sys.executable, "-c", LAUNCH, *map(str, theirs), program, *options]
        process = subprocess.Popen(command, pass_fds=theirs, stderr=subprocess.DEVNULL)
        for number in (hears, tells, *theirs):
            os.close(number)
        try:
            with os.fdopen(write, "wb", 0) as commands, os.fdopen(read, "rb", 0) as answers:
                yield Page(commands.write, answers.fileno())
        finally:
            process.kill()
            process.wait()


class Page:
    """A page: `events` has what the browser told of it since it was opened."""

    def __init__(self, write: Any, answers: int) -> None:
        self._write, self._answers = write, answers
        self._unread, self._count, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What a method of the DevTools protocol answers."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, event: str) -> None:
        """Until the browser has told of an event."""
        while all(told.get("method") != event for told in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        end = monotonic() + PATIENCE
        while b"\0" not in self._unread:
            if not select([self._answers], [], [], max(0.0, end - monotonic()))[0]:
                raise TimeoutError(f"the browser must answer within {PATIENCE} s")
            self._unread += os.read(self._answers, 1 << 20)
        message, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, file: Path, width: int = 1100, dark: bool = False) -> None:
        """Show a file at this width, in light or dark."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=file.absolute().as_uri())
        self.wait("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript comes to; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return found["result"].get("value")

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """The events of these names."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def requests(self) -> list[str]:
        """The addresses that it asked for."""
        return [own["request"]["url"] for own in self.told("Network.requestWillBeSent")]

    def complaints(self) -> list[dict[str, Any]]:
        """What stands in the console."""
        methods = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return self.told(*methods)

    def picture(self, file: Path) -> None:
        """Write the whole page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(found["data"]))

    def paper(self, file: Path) -> None:
        """Write the page as PDF, as it would be printed."""
        found = self.call("Page.printToPDF", printBackground=False)
        file.write_bytes(base64.b64decode(found["data"]))
