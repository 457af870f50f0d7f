"""The configuration: each rule broken once, the device that `auto` means, and the way back."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autoprox.errors import AutoproxError
from autoprox.evolution import EvolutionParameters
from autoprox.language.grammar import TreeLimits
from autoprox.tasks.config import DEVICES, Config, ConfigError, resolve_device

BROKEN = [
    ({"population": 1}, r"population must be a whole number >= 2, but got 1"),
    ({"population": True}, r"population must be a whole number >= 2, but got True"),
    ({"iterations": 0}, r"iterations must be a whole number >= 1, but got 0"),
    ({"children": 0}, r"children must be a whole number >= 1, but got 0"),
    ({"top": 0}, r"top must be a whole number >= 1, but got 0"),
    ({"retries": -1}, r"retries must be a whole number >= 0, but got -1"),
    ({"evaluations": 0}, r"evaluations must be a whole number >= 1, but got 0"),
    ({"sample_ratio": 0}, r"sample_ratio must be a number > 0 and <= 1, but got 0"),
    ({"sample_ratio": 1.1}, r"sample_ratio must be a number > 0 and <= 1, but got 1\.1"),
    ({"margin": -0.1}, r"margin must be a number >= 0 and <= 2, but got -0\.1"),
    ({"margin": math.nan}, r"margin must be a number >= 0 and <= 2, but got nan"),
    ({"train": 0}, r"train must be a number > 0 and < 1, but got 0"),
    ({"train": 1}, r"train must be a number > 0 and < 1, but got 1"),
    ({"train": "0.5"}, r"train must be a number > 0 and < 1, but got '0\.5'"),
    ({"batch_size": 0}, r"batch_size must be a whole number >= 1, but got 0"),
    ({"batch_size": 2.0}, r"batch_size must be a whole number >= 1, but got 2\.0"),
    ({"thin": 0}, r"thin must be a whole number >= 1, but got 0"),
    ({"workers": 0}, r"workers must be a whole number >= 1, but got 0"),
    ({"memory": 0}, r"memory must be a whole number >= 1, but got 0"),
    ({"memory": "4GiB"}, r"memory must be a whole number >= 1, but got '4GiB'"),
    ({"seed": -1}, r"seed must be a whole number >= 0, but got -1"),
    ({"seed": 2**63}, r"seed must be a whole number < 2\*\*63, but got 9223372036854775808"),
    ({"split_seed": -1}, r"split_seed must be a whole number >= 0, but got -1"),
    ({"max_size": 0}, r"`1 <= max_size <= 1000` must hold, got 0"),
    ({"strategy": "elite"}, r"unknown strategy 'elite' \(did you mean elitist\?\); choose from"),
    ({"device": "gpu"}, r"unknown device 'gpu' .*; choose from auto, cpu, cuda, mps"),
    ({"iteration": 1}, r"unknown option 'iteration' \(did you mean iterations\?\); choose from"),
    ({"settings": EvolutionParameters()}, r"unknown option 'settings'"),
]


@pytest.mark.parametrize(("options", "message"), BROKEN, ids=[str(o) for o, _ in BROKEN])
def test_rules(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AutoproxError, match=message):
        Config.of(**options)


def test_options_by_name() -> None:
    options = {"top": 3, "max_depth": 4, "datasets": ["a", "b"], "cache": Path("x"), "seed": 1}
    config = Config.of(**options)
    assert config.settings == EvolutionParameters(top=3)
    assert config.limits == TreeLimits(max_depth=4)
    assert (config.datasets, config.cache, config.seed) == (("a", "b"), "x", 1)
    assert Config.of(seed=np.int64(1), train=np.float32(0.5)).train == 0.5


def test_json_and_back() -> None:
    config = Config.of(datasets=["a"], weights=(1.0, 2.0), statistics=["msa.grad"], retries=0)
    assert Config.from_json(json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    "change", [{"settings": None}, {"limits": {"size": 1}}, {"colour": 1}, {"seed": None}]
)
def test_json_of_another_version(change: dict[str, Any]) -> None:
    with pytest.raises(AutoproxError, match=r"config\.json must be one that this|seed must be"):
        Config.from_json(json.loads(json.dumps(asdict(Config()))) | change)
    with pytest.raises(ConfigError, match=r"but got: KeyError 'settings'"):
        Config.from_json({})


@pytest.mark.parametrize(
    ("cuda", "mps", "auto"),
    [(True, True, "cuda"), (False, True, "mps"), (True, False, "cuda"), (False, False, "cpu")],
)
def test_device(cuda: bool, mps: bool, auto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert Config(device="auto").device == auto
    usable = {"auto", "cpu"} | ({"cuda"} if cuda else set()) | ({"mps"} if mps else set())
    for device in DEVICES:
        if device in usable:
            assert resolve_device(device) == (auto if device == "auto" else device)
        else:
            with pytest.raises(ConfigError, match=rf"'{device}' is not; choose from auto"):
                resolve_device(device)
