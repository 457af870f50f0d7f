"""How a space evolves: its options move along the tendency of the error (equations 7 and 8)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

from autoprox.oneshot.s3.quality import Quality
from autoprox.searchspaces.swin import SwinSpace


@dataclass(frozen=True)
class Tendency:
    """What became of the options of a field."""

    before: tuple[float, ...]
    errors: Mapping[float, Quality]
    slope: float | None  # in percent a step; None of a single option
    steps: int  # by which options are lowered
    after: tuple[float, ...]
    dropped: tuple[float, ...]  # that would have been below the least

    def to_json(self) -> dict[str, Any]:
        """All of it, the errors by the text of their options."""
        return {
            "before": self.before,
            "errors": {str(option): found.to_json() for option, found in self.errors.items()},
            "slope": None if self.slope is None else round(self.slope, 6),
            "steps": self.steps,
            "after": self.after,
            "dropped": self.dropped,
        }


def tendency(
    options: tuple[float, ...], errors: Mapping[float, Quality], step: float, tau: float
) -> Tendency:
    """Fit a line to the errors, in percent, of options in steps; move all by floor(slope / tau).

    Options that aren't above 0 afterwards are dropped: no network has them. Where none is left, the
    least of those before stays.
    """
    if len(errors) < 2:
        return Tendency(options, errors, None, 0, options, ())
    places = [option / step for option in errors]
    slope = linear_regression(places, [found.error for found in errors.values()]).slope
    steps = math.floor(slope / tau)
    moved = tuple(option - steps * step for option in options)
    kept = tuple(option for option in moved if option > 0)
    dropped = tuple(option for option in moved if option <= 0)
    return Tendency(options, errors, slope, steps, kept or (min(options),), dropped)


def tendencies(
    space: SwinSpace, errors: Mapping[str, Mapping[float, Quality]], tau: float
) -> dict[str, Tendency]:
    """The tendency of each field, whose subspaces have these errors."""
    return {
        name: tendency(options, errors[name], space.step(name), tau)
        for name, options in space.options.items()
    }


def evolved(space: SwinSpace, found: Mapping[str, Tendency]) -> SwinSpace:
    """The space of the options after, all fields' combined (equation 6)."""
    return space.with_options({name: own.after for name, own in found.items()})
