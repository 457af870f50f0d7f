"""The suite for a benchmark: its files are there, and all that it lists can be read."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from autoprox.benchmarks import BENCHMARKS, BuiltInBenchmark, benchmark_info, load_benchmark
from autoprox.searchspaces import get_space
from autoprox.testing.rule_assertion import assert_rule


def check_benchmark(benchmark: BuiltInBenchmark, data_dir: Path | None = None) -> None:
    """Check that a benchmark's files are installed, its architectures valid and its scores finite.

    There are no more architectures than its files are said to have, and listings of it are JSON.
    """
    name = benchmark.name
    with BENCHMARKS.trial(name, benchmark):
        info = benchmark_info(name, data_dir)
        found = json.loads(json.dumps(info.model_dump()))
        assert_rule(found == info.model_dump(), f"the description of {name} is JSON")
        assert_rule(info.installed, f"the files of {name} are those that it pins")
        for space, labels in benchmark.labels.items():
            files = [f for f in benchmark.files if f.space == space and f.subset == "main"]
            rated = set(benchmark.reliability.get(space, ()))
            assert_rule(
                rated <= set(next(iter(labels.values()))), "reliability is of the first label"
            )
            for label, datasets in labels.items():
                asked: dict[str, Any] = {"space": space, "label": label, "datasets": datasets}
                loaded = load_benchmark(name, **asked, data_dir=data_dir)
                for architecture in loaded.architectures:
                    get_space(space).validate(architecture)
                count, said = len(loaded.architectures), sum(f.architectures for f in files)
                assert_rule(
                    count <= said, f"{name} has {said} architectures of {space}, got {count}"
                )
                for dataset, scores in loaded.scores.items():
                    assert_rule(np.isfinite(scores).all(), f"the {label} of {dataset} is finite")
