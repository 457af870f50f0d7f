"""The memory that a process takes for matrices."""

import subprocess
import sys
from pathlib import Path

PEAK = """
import resource, sys
from pathlib import Path

import torch

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.language import STATISTICS, parse_expression
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.untrained_networks import untrained_space_networks
sys.path.insert(0, sys.argv[1])
from helpers.networks import SPACE, noise, tiny

class Sizes(MeasurementSetting):
    def measure(self, network, needs):
        for dataset, wanted in needs.items():
            yield dataset, {s: [torch.ones(256, 256) for _ in range(4)] for s in wanted}

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10

torch.set_num_threads(1)
archs = [tiny(width, (1, 1.0), (1, 2.0)) for width in range(1, 81)]
networks = untrained_space_networks(SPACE, archs)
folder, memory = Path(sys.argv[2]), int(sys.argv[3])
needs = [STATISTICS["msa.weight"], STATISTICS["msa.grad"]]
tree = parse_expression("sum(sum(mul(msa.weight, msa.grad)))")
sizes = Sizes({"few": noise(4)})
TreeEvaluator(CachedMatrices(sizes, networks[:1], needs, folder=folder)).evaluate([tree])
before = peak()
kept = CachedMatrices(sizes, networks, needs, folder=folder, memory=memory)
assert (TreeEvaluator(kept).evaluate([tree]).values == 4 * 256**2).all()
print(peak() - before)
"""


def test_peak_memory_follows_the_bound(tmp_path: Path) -> None:
    """160 MiB of matrices, in a process of their own."""
    memory = 8 * 2**20
    command = [
        sys.executable,
        "-c",
        PEAK,
        str(Path(__file__).parents[1]),
        str(tmp_path),
        str(memory),
    ]
    added = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert added < 48 * 2**20
