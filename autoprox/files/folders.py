"""Where what the program keeps lies on the user's disk."""

from pathlib import Path

import platformdirs


def user_cache() -> Path:
    """Where downloads and measured statistics are kept."""
    return platformdirs.user_cache_path("autoprox", appauthor=False)
