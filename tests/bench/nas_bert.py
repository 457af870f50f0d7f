"""Why figures on NAS-Bench-BERT are higher than published: python tests/bench/nas_bert.py

Prints Kendall's tau with the mean GLUE score of all 500 encoders, of the parameters and of the head
confidence, as the encoders were chosen, and as the published code measured them: whatever is
chosen, 256 dimensions, and 1024 in feed-forward layers. Needs the benchmark's file.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from autoprox.benchmarks.nas_bench_bert import LAYER_FIELDS, OPERATION_NAMES
from autoprox.inputs.batch_loading import load_batches
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.flexibert import FLEXIBERT
from autoprox.zoo.functions import measure_function_proxies

PUBLISHED = {"params": 0.454, "head_confidence": 0.478}
GEOMETRIES = ("as measured by the published code", "as chosen")


def architecture(entry: Mapping[str, Any], geometry: str) -> Architecture:
    chosen = entry["hparams"]["model_hparam_overrides"]
    layers = chosen["nas_config"]["encoder_layers"]
    names = {(kind, parameter): name for kind, parameter, name in OPERATION_NAMES}
    choices = {
        "hidden_size": chosen["hidden_size"],
        "depth": len(layers),
        "operation": [names[x["operation_type"], x["operation_parameter"]] for x in layers],
        **{name: [layer[name] for layer in layers] for name in LAYER_FIELDS},
    }
    if geometry == GEOMETRIES[0]:
        choices |= {"hidden_size": 256, "feed_forward_dimension": [1024] * len(layers)}
    return FLEXIBERT.architecture(choices)


def figures(entries: list[Mapping[str, Any]], geometry: str) -> dict[str, float]:
    truth = [entry["scores"]["glue"] for entry in entries]
    classes = {"glue": FLEXIBERT.vocabulary}
    [batch] = load_batches(FLEXIBERT, classes, batch_size=4, seed=0).values()
    found: dict[str, list[float]] = {name: [] for name in PUBLISHED}
    for i, entry in enumerate(entries):
        arch = architecture(entry, geometry)
        network = FLEXIBERT.build(arch, batch.classes, seed=0)
        measured = measure_function_proxies(network, batch, ["head_confidence"], 0)
        found["head_confidence"].append(measured["head_confidence"])
        found["params"].append(float(FLEXIBERT.params(arch)))
        print(f"\r{geometry}: {i + 1}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: float(kendalltau(truth, np.array(own)).statistic) for name, own in found.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    folder = Path(os.environ["AUTOPROX_DATA"]) / "nas-bench-bert"
    entries = json.loads((folder / "BERT_benchmark.json").read_text())
    print(json.dumps({"published": PUBLISHED}))
    for geometry in GEOMETRIES:
        print(json.dumps({geometry: figures(entries, geometry)}), flush=True)


if __name__ == "__main__":
    main()
