"""How good a space is: the expected and the top-tier error of its architectures (section 2.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from autoprox.searchspaces import Architecture
from autoprox.searchspaces.swin import SwinSpace


@dataclass(frozen=True)
class Quality:
    """The E-T error of a space, and what it is the mean of, in percent (equation 5)."""

    expected: float
    top_tier: float
    architectures: int  # that were measured

    @property
    def error(self) -> float:
        """The E-T error."""
        return (self.expected + self.top_tier) / 2

    def to_json(self) -> dict[str, float]:
        """All numbers by their names."""
        return {
            "error": round(self.error, 4),
            "expected": round(self.expected, 4),
            "top_tier": round(self.top_tier, 4),
            "architectures": self.architectures,
        }


def quality(errors: Sequence[float], top: int) -> Quality:
    """Of the errors of random architectures: their mean, and that of the best so many."""
    return Quality(fmean(errors), fmean(sorted(errors)[:top]), len(errors))


def subspaces(
    space: SwinSpace, errors: Mapping[Architecture, float], top: int
) -> dict[str, dict[float, Quality]]:
    """For each field and each of its options the quality of the architectures that have it.

    One with a value for every block has an option if it has it in one of them. An option that no
    architecture has is left out.
    """
    found: dict[str, dict[float, Quality]] = {}
    for name, options in space.options.items():
        found[name] = {}
        for option in options:
            own = [error for arch, error in errors.items() if option in _values(arch[name])]
            if own:
                found[name][option] = quality(own, top)
    return found


def _values(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)
