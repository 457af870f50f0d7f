"""The evolution of a search space by the errors of its architectures (section 2.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression
from typing import Any

from autoprox.searchspaces import Architecture
from autoprox.searchspaces.swin import SwinSpace


@dataclass(frozen=True)
class SpaceQuality:
    """The expected and the top-tier error of a space's architectures, in percent."""

    expected: float
    top_tier: float
    architectures: int  # that were measured

    @property
    def error(self) -> float:
        """The E-T error (equation 5)."""
        return (self.expected + self.top_tier) / 2

    def to_json(self) -> dict[str, float]:
        names = ("error", "expected", "top_tier")
        errors = {name: round(getattr(self, name), 4) for name in names}
        return {**errors, "architectures": self.architectures}


def space_quality(errors: Sequence[float], top: int) -> SpaceQuality:
    """Return the mean of random architectures' errors, and the mean of the `top` lowest."""
    return SpaceQuality(fmean(errors), fmean(sorted(errors)[:top]), len(errors))


def option_qualities(
    space: SwinSpace, errors: Mapping[Architecture, float], top: int
) -> dict[str, dict[float, SpaceQuality]]:
    """Return for each option of each field the quality of the architectures that have it.

    One with a value for every block has an option if it has it in one of them. An option that no
    architecture has is left out.
    """
    qualities: dict[str, dict[float, SpaceQuality]] = {}
    for name, options in space.options.items():
        by_option: dict[float, list[float]] = {option: [] for option in options}
        for arch, error in errors.items():
            values = arch[name] if isinstance(arch[name], tuple) else (arch[name],)
            for option in by_option.keys() & set(values):
                by_option[option].append(error)
        qualities[name] = {o: space_quality(found, top) for o, found in by_option.items() if found}
    return qualities


@dataclass(frozen=True)
class OptionShift:
    """How the options of a field moved, and why."""

    before: tuple[float, ...]
    errors: Mapping[float, SpaceQuality]
    slope: float | None  # of the error in percent per step; None of a single option
    steps: int  # by which options are lowered
    after: tuple[float, ...]
    dropped: tuple[float, ...]  # that would have been below the least

    def to_json(self) -> dict[str, Any]:
        errors = {str(option): quality.to_json() for option, quality in self.errors.items()}
        slope = None if self.slope is None else round(self.slope, 6)
        return {**vars(self), "errors": errors, "slope": slope}


def shift_options(
    options: tuple[float, ...], errors: Mapping[float, SpaceQuality], step: float, tau: float
) -> OptionShift:
    """Fit a line to the options' errors, and move all by floor(slope / tau) (equations 7 and 8).

    Options that aren't above 0 afterwards are dropped: no network has them. If none is left, the
    least of those before stays.
    """
    if len(errors) < 2:
        return OptionShift(options, errors, None, 0, options, ())
    positions = [option / step for option in errors]
    slope = linear_regression(positions, [quality.error for quality in errors.values()]).slope
    steps = math.floor(slope / tau)
    moved = tuple(option - steps * step for option in options)
    kept = tuple(option for option in moved if option > 0)
    dropped = tuple(option for option in moved if option <= 0)
    return OptionShift(options, errors, slope, steps, kept or (min(options),), dropped)


def shift_all_options(
    space: SwinSpace, errors: Mapping[str, Mapping[float, SpaceQuality]], tau: float
) -> dict[str, OptionShift]:
    """Return the shift of each field, whose options have these errors."""
    return {
        name: shift_options(options, errors[name], space.step(name), tau)
        for name, options in space.options.items()
    }


def evolve_space(space: SwinSpace, shifts: Mapping[str, OptionShift]) -> SwinSpace:
    """Return the space of all fields' options after their shifts (equation 6)."""
    return space.with_options({name: shift.after for name, shift in shifts.items()})
