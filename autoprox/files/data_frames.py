"""Rows as a data frame of pandas, which is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autoprox.errors import AutoproxError

if TYPE_CHECKING:
    import pandas


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """A column for each key; pandas must be installed."""
    try:
        import pandas  # optional
    except ImportError:
        raise AutoproxError("a data frame needs pandas: pip install pandas") from None
    return pandas.DataFrame(list(rows))
