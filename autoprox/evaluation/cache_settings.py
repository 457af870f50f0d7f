"""The cache of measurements that a configuration and the environment ask for."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from autoprox.configurations.shared_options import CacheOptions
from autoprox.errors import ConfigError
from autoprox.files.folder_checks import user_cache_folder
from autoprox.files.human_readable_sizes import SizeError, parse_bytes, parse_days
from autoprox.statistics.matrix_cache import CACHE_AGE, CACHE_LIMIT
from autoprox.statistics.statistic_files import SharedStatisticFolder

LIMIT_VARIABLE, AGE_VARIABLE = "AUTOPROX_CACHE_LIMIT", "AUTOPROX_CACHE_AGE"
STATISTICS_FOLDER, ZOO_FOLDER = "statistics", "zoo"


class CacheSettings(NamedTuple):
    """The folder of statistics, the folder that machines share, if any, and the bounds."""

    folder: Path
    shared: SharedStatisticFolder | None
    limit: int  # bytes
    age: int  # days


def cache_settings(config: CacheOptions) -> CacheSettings:
    """Return the settings of a configuration, or of the environment."""
    limit, age = cache_bounds()
    limit = limit if config.cache_limit is None else config.cache_limit
    age = age if config.cache_age is None else config.cache_age
    location = None if config.cache is None else str(config.cache)
    if location is not None and "://" in location:
        shared = SharedStatisticFolder(f"{location.rstrip('/')}/{STATISTICS_FOLDER}")
        return CacheSettings(user_cache_folder() / STATISTICS_FOLDER, shared, limit, age)
    folder = user_cache_folder() if location is None else Path(location)
    return CacheSettings(folder / STATISTICS_FOLDER, None, limit, age)


def cache_bounds() -> tuple[int, int]:
    """Return the limit and the age of the cache that the environment sets."""
    limit = _from_environment(LIMIT_VARIABLE, parse_bytes, CACHE_LIMIT)
    return limit, _from_environment(AGE_VARIABLE, parse_days, CACHE_AGE)


def _from_environment(name: str, read: Callable[[str], int], default: int) -> int:
    text = os.environ.get(name)
    try:
        return default if text is None else read(text)
    except SizeError as error:
        raise ConfigError(f"{name}: {error}") from error
