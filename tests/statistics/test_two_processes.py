"""Two processes on one cache."""

import hashlib
import subprocess
import sys
from pathlib import Path

from autoprox.files.atomic_writes import UNFINISHED

MEASURE = """
import hashlib, sys
from pathlib import Path

import torch

sys.path.insert(0, sys.argv[1])
from helpers.measuring import Conditions, cached
from helpers.networks import SPACE, noise, tiny

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.language import STATISTICS, parse_expression

torch.set_num_threads(1)
setting = Conditions(SPACE, {"few": noise(4), "many": noise(10)})
networks = [tiny(width, (1, 1.0), (2, 2.0)) for width in range(4, 24)]
needs = [STATISTICS["msa.weight"], STATISTICS["msa.grad"], STATISTICS["mlp.act"]]
for again in range(3):
    kept = cached(setting, networks, needs, folder=Path(sys.argv[2]), memory=0, limit=0)
    tree = parse_expression("sum(add(sum(mul(msa.weight, msa.grad)), log1p(l1_norm(msa.grad))))")
    print(hashlib.sha256(TreeEvaluator(kept).evaluate([tree]).values.tobytes()).hexdigest())
    del kept
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MEASURE, str(Path(__file__).parents[1]), str(folder)]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True)


def test_both_are_right(tmp_path: Path) -> None:
    """They write the same files at once, read them again and again, and trim the folder."""
    alone = start(tmp_path / "alone")
    others = [start(tmp_path / "shared") for _ in range(2)]
    expected, error = alone.communicate()
    assert alone.returncode == 0, error
    assert len(set(expected.split())) == 1
    for process in others:
        found, error = process.communicate()
        assert (process.returncode, found) == (0, expected), error

    def digests(folder: Path) -> dict[str, str]:
        files = [path for path in folder.glob("??/*") if path.is_file()]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    assert digests(tmp_path / "shared") == digests(tmp_path / "alone")
    assert not list((tmp_path / "shared").rglob(f"*{UNFINISHED}"))
