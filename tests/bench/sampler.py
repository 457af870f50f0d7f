"""Time to draw 400 different architectures within 2 % of a size, for every space.

    python tests/bench/sampler.py [SPACE ...]

The size is the median of 101 samples. Where fewer than 400 exist, all of them are found, and their
number is printed. The last column is the chi-square p-value of uniformity, for spaces of at most
30,000 architectures of a fixed number of choices: 20 draws for each architecture that the limits
hold, against their enumeration.
"""

import argparse
import random
import sys
import time
from collections import Counter

from scipy.stats import chisquare

from autoprox.searchspaces import SPACES, SearchSpace, get_space
from autoprox.searchspaces.architecture_counts_by_size import ArchitectureCounts
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits, matching_size_range

WANTED, CLASSES = 400, 1000
MOST_SECONDS = 2.0


def main(names: list[str]) -> int:
    """Print a row for each space; 1 if one takes longer than it may."""
    slow = 0
    print("space                    size    found  seconds  uniform")
    for name in names or list(SPACES):
        space, rng = get_space(name), random.Random(0)
        sizes = sorted(space.params(space.sample(rng), CLASSES) for _ in range(101))
        limits = SizeLimits(space, CLASSES, matching_size_range(sizes[50]))
        started = time.perf_counter()
        found = ArchitectureSampler(limits).sample(WANTED, random.Random(0))
        seconds = time.perf_counter() - started
        slow += seconds > MOST_SECONDS
        assert len(set(found)) == len(found)
        assert all(limits.admit(arch) for arch in found)
        print(f"{name:24} {sizes[50]:>9,} {len(found):4} {seconds:7.2f}  {uniform(space, limits)}")
    return int(slow > 0)


def uniform(space: SearchSpace, limits: SizeLimits) -> str:
    """Return the p-value of uniformity, if the space is small and of a fixed number of choices."""
    if space.size() > 30_000 or any(field.count for field in space.fields.values()):
        return ""
    counts, rng = ArchitectureCounts(limits), random.Random(1)
    existing = [arch for arch, _ in counts.every()]
    drawn: Counter[object] = Counter()
    while drawn.total() < 20 * len(existing):
        drawn.update(arch for arch in [counts.draw(rng)] if arch is not None)
    return f"p = {chisquare([drawn[arch] for arch in existing]).pvalue:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("spaces", nargs="*", metavar="SPACE")
    sys.exit(main(parser.parse_args().spaces))
