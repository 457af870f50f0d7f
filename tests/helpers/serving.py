"""A server of files on this machine."""

import contextlib
import time
from http.server import SimpleHTTPRequestHandler


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder; the first `failures` requests fail."""

    failures = 0
    drips = False

    def do_GET(self) -> None:
        if QuietHandler.drips:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # once nobody listens
                for _ in range(100):
                    self.wfile.write(b"x")
                    time.sleep(0.1)
        elif QuietHandler.failures:
            QuietHandler.failures -= 1
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""
