"""The configurations: strict, complete, and the same after JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoprox.configurations.commands import (
    CONFIGURATIONS,
    BuildConfig,
    EvolveConfig,
    RankConfig,
    RediscoverConfig,
    SearchConfig,
)
from autoprox.configurations.shared_options import TaskConfig, names
from autoprox.errors import ConfigError
from autoprox.files.atomic_writes import to_json

NEEDED: dict[str, dict[str, Any]] = {
    "compare": {"proxies": ("snip", "dss")},
    "search": {"space": "pit", "proxy": "snip"},
    "rediscover": {"proxy": "snip"},
    "build": {"space": "pit", "out": "x.json"},
    "supernet-train": {"space": "autoformer-nano", "images": "photos"},
    "supernet-eval": {"supernet": "run"},
    "prenas": {"space": "autoformer-nano", "sizes": "5K:9K:1K"},
    "s3": {"space": "swin-nano", "images": "photos"},
}


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        (RankConfig, {"proxies": "snip"}, "proxies must be a list of texts, but got 'snip'"),
        (RankConfig, {"proxies": [3]}, "proxies must be a list of texts, but got 3"),
        (EvolveConfig, {"max_size": 3.5}, "max_size must be a whole number >= 1 and <= 1000, bu"),
        (EvolveConfig, {"max_depth": True}, "max_depth must be a whole number .* but got True"),
        (EvolveConfig, {"datasets": "cifar10"}, "datasets must be a list of texts, but got 'cif"),
        (
            EvolveConfig,
            {"dataset_weights": [True]},
            "dataset_weights must be a list of numbers, but",
        ),
        (EvolveConfig, {"seed": -1}, "seed must be a whole number >= 0, but got -1"),
        (RankConfig, {"workers": 10**9}, r"workers must be a whole number >= 1 and <= 1024, but g"),
        (RankConfig, {"batch_size": 2**63 - 1}, r"batch_size must be .* >= 1 and <= 65536, but g"),
        (EvolveConfig, {"population": 10**9}, r"population must be .* >= 2 and <= 1000000, but g"),
        (EvolveConfig, {"children": 10**9}, r"children must be .* >= 1 and <= 1000000, but g"),
        (EvolveConfig, {"seed": 2**63}, r"seed must be a whole number >= 0 and < 2\*\*63, but g"),
        (EvolveConfig, {"population": 1}, "population must be a whole number >= 2, but got 1"),
        (EvolveConfig, {"train": 1}, "train must be a number > 0 and < 1, but got 1"),
        (EvolveConfig, {"margin": float("nan")}, "margin must be a number >= 0 and <= 2, but g"),
        (EvolveConfig, {"sample_ratio": 0}, "sample_ratio must be a number > 0 and <= 1"),
        (EvolveConfig, {"images": 3}, "images must be a text or a path, but got 3"),
        (EvolveConfig, {"length": 1}, "length must be a whole number >= 2, but got 1"),
        (EvolveConfig, {"sed": 1}, r"unknown option 'sed' \(did you mean seed\?\); choose from ru"),
        (RediscoverConfig, {}, "a rediscovery needs proxy, but got none"),
        (RediscoverConfig, {"proxy": "snip", "seconds": 0}, "seconds must be a number > 0, but g"),
        (BuildConfig, {"space": "pit", "out": "x", "mirror": "a"}, "mirror must be a list of te"),
    ],
)
def test_a_broken_rule_is_an_error_of_one_line(
    config: type[TaskConfig], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        config(**given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_json_and_back(kind: str) -> None:
    config = CONFIGURATIONS[kind](**NEEDED.get(kind, {}))
    stored = {name: getattr(config, name) for name in config.named(stored=True)}
    again = CONFIGURATIONS[kind](**json.loads(to_json(stored)))
    assert again == config
    assert set(stored) == set(type(config).model_fields) - {"runs", "name", "progress"}


def test_other_common_types_are_accepted() -> None:
    config = EvolveConfig(datasets=["a"], seed=np.int64(3), images=Path("photos"), train=0.5)
    assert (config.datasets, config.seed, config.images) == (("a",), 3, "photos")
    assert type(config.seed) is int
    search = SearchConfig(space="pit", proxy="snip", params="5M:", flops=(1, None))
    assert (search.params, search.flops) == ((5_000_000, None), (1, None))


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        EvolveConfig().seed = 3


def test_every_option_is_explained() -> None:
    for config in CONFIGURATIONS.values():
        for name, _, option in config.described():
            assert option.help.endswith("."), (config, name)
            assert config.option_lines().count(f"{name}: ") >= 1


def test_names_may_hold_commas_in_parentheses() -> None:
    expected = ("snip", "add(rank(ntkt), rank(sept))", "dss")
    assert names("snip, add(rank(ntkt), rank(sept)),dss") == expected
