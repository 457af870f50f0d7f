"""LiteTransformerSearch (LTS): Javaheripi et al., "LiteTransformerSearch: Training-free Neural
Architecture Search for Efficient Language Models", NeurIPS 2022.

200 random GPT-2 networks trained from scratch on WikiText-103, and 200 others on LM1B, with their
validation perplexity. ETAS's space is built on that of these networks. A folder has a file for each
network's choices, and one for the perplexities of all.
From github.com/microsoft/archai, MIT.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autoprox.benchmarks.benchmark import BenchmarkRow, BenchmarkSelection, make_benchmark_row
from autoprox.benchmarks.benchmark_registry import (
    BuiltInBenchmark,
    PinnedBenchmarkFile,
    PinnedBenchmarkFolder,
)
from autoprox.files.json_documents import (
    Finite,
    JSONFileError,
    JSONNode,
    PartialJSONDocument,
    validate_json,
)
from autoprox.files.plain_yaml import parse_plain_yaml

_COMMIT = "af79c739e04cec045cf5a5cedd01f354aa3463d1"
_REPOSITORY = "microsoft/archai"
_LABEL = "valid_ppl"
_WIKITEXT, _LM1B = "wikitext-103", "lm1b"
_SPACES = {"gpt2-lts": _WIKITEXT, "gpt2-lts-lm1b": _LM1B}
_VOCABULARY = 50264
# The same for all networks of a space, which make the others' meaning.
_COMMON = {"n_token": _VOCABULARY, "tie_weight": True, "adaptive": True, "d_head": -1}
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "gpt2-lts": _COMMON | {"tgt_len": 192, "cutoffs": [19997, 39997, 199997, _VOCABULARY]},
    "gpt2-lts-lm1b": _COMMON | {"tgt_len": 32, "cutoffs": [59997, 99997, 639997, _VOCABULARY]},
}


class Perplexities(PartialJSONDocument):
    """What was measured on a trained network."""

    valid_ppl: Finite


class ModelConfig(PartialJSONDocument):
    """The choices of a network; the space says what its numbers may be."""

    n_layer: Any
    d_model: Any
    d_embed: Any
    div_val: Any
    d_inner: Any
    n_head: Any


def _read(
    selection: BenchmarkSelection,
    files: Sequence[tuple[PinnedBenchmarkFile, Mapping[str, bytes]]],
) -> list[BenchmarkRow]:
    """The rows of the one folder of the space."""
    [(folder, contents)] = files
    summary = _parsed(contents, "ppl_summary.yaml", folder.name)
    perplexities = validate_json(summary, dict[str, Perplexities])
    [dataset] = selection.datasets
    rows = []
    for name, found in perplexities.items():
        config = _parsed(contents, f"{name.replace('_j', '/j')}/model_config.yaml", folder.name)
        choices = _choices(config, selection.space)
        scores = {dataset: -found.valid_ppl}  # higher must be better
        rows.append(make_benchmark_row(selection.space, choices, scores, config.file))
    return rows


def _parsed(contents: Mapping[str, bytes], path: str, folder: str) -> JSONNode:
    if path not in contents:
        raise JSONFileError(f"{folder} must have the file {path}, but has not")
    return parse_plain_yaml(contents[path], f"{folder}/{path}")


def _choices(config: JSONNode, space: str) -> dict[str, Any]:
    choices = validate_json(config, ModelConfig).model_dump()
    plain = config.plain()
    for name, value in _FIXED[space].items():
        if name not in plain:
            raise config.lacks(name)
        if plain[name] != value or type(plain[name]) is not type(value):
            raise config.at(name).error(f"must be {value}")
    if choices["d_embed"] == -1:
        choices["d_embed"] = choices["d_model"]
    if space == "gpt2-lts-lm1b" and choices.pop("d_embed") != choices["d_model"]:
        raise config.at("d_embed").error("must be -1 or d_model")
    return choices


LTS = BuiltInBenchmark(
    name="lts",
    description="GPT-2 networks trained from scratch, with their perplexity (LTS)",
    labels={space: {_LABEL: (dataset,)} for space, dataset in _SPACES.items()},
    classes=dict.fromkeys(_SPACES.values(), _VOCABULARY),
    licence="MIT",
    origin=f"github.com/{_REPOSITORY} at {_COMMIT}",
    url=f"https://codeload.github.com/{_REPOSITORY}/tar.gz/{_COMMIT}",
    files=tuple(
        PinnedBenchmarkFolder(
            name,
            sha256,
            size=None,
            space=space,
            architectures=200,
            files=202,
            within="archai/nlp/nas/saved_logs",
        )
        for space, name, sha256 in (
            (
                "gpt2-lts",
                "random_GPT2_wt103",
                "9c32afd88cde89a41220f5036e34c93ad8e9d3fb309d9a145bf02d6d2710141e",
            ),
            (
                "gpt2-lts-lm1b",
                "random_GPT2_lm1b",
                "43ee94b6acb76a395beff8a9d5fd20afbffbc61ef95dbbcf64be8dcf85b15b07",
            ),
        )
    ),
    read=_read,
)
