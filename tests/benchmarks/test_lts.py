"""LiteTransformerSearch: the published networks, and what is said of wrong folders and archives."""

import gzip
import os
import random
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import Command
from helpers.lts import INSIDE, archive, folder_digest, link, lts_folder
from scipy.stats import kendalltau
from torch import nn
from torch.nn import functional

from autoprox.benchmarks import (
    BENCHMARKS,
    BenchmarkError,
    BuiltInBenchmark,
    benchmark_info,
    data_files,
    load_benchmark,
    loading,
)
from autoprox.files import tar_archives
from autoprox.files.plain_yaml import parse_plain_yaml
from autoprox.registry import Registry
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.gpt2_lts import GPT2_LTS, GPT2_LTS_LM1B, LTSNetwork

NAME, FOLDER = "lts", "random_GPT2_wt103"
DATA = os.environ.get("AUTOPROX_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, NAME, FOLDER).is_dir(),
    reason="needs the folders of lts: set AUTOPROX_DATA to a folder that has them",
)


# ---- the published networks


def count(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


@needs_data
def test_parameters_are_the_published_ones() -> None:
    """All five counts, of the networks as they are built."""
    benchmark = load_benchmark(NAME)
    text = Path(str(DATA), NAME, FOLDER, "params_summary.yaml").read_bytes()
    published = parse_plain_yaml(text, "params_summary.yaml").plain()
    perplexities = Path(str(DATA), NAME, FOLDER, "ppl_summary.yaml").read_bytes()
    order = parse_plain_yaml(perplexities, "ppl_summary.yaml").plain()
    assert len(order) == len(published) == 200
    for name, arch in zip(order, benchmark.architectures, strict=True):
        with torch.device("meta"):
            network = GPT2_LTS.network(arch, 0)
        blocks = list(network.blocks)
        found = {
            "Attn": sum(count(block.qkv, block.proj) for block in blocks),
            "FFN": sum(count(block.fc1, block.fc2) for block in blocks),
            "nonembedding": count(*blocks, network.norm),
            "AdaEmb": count(network.embedding, network.tails, network.projections)
            + network.position.numel(),
            "total": count(network),
        }
        assert found == published[name]
        assert GPT2_LTS.params(arch) == found["total"]


@needs_data
def test_parameters_have_their_published_taus() -> None:
    benchmark = load_benchmark(NAME)
    scores = benchmark.scores["wikitext-103"]
    total = [GPT2_LTS.params(a) for a in benchmark.architectures]
    decoder = [sum(b.params for b in GPT2_LTS.blocks(a)) for a in benchmark.architectures]
    assert kendalltau(total, scores).statistic == pytest.approx(0.582, abs=0.001)
    assert kendalltau(decoder, scores).statistic == pytest.approx(0.847, abs=0.001)


def test_lm1b_has_published_counts_but_for_its_attention() -> None:
    """Its counts are of Transformer-XL: with 5 d^2 + 2 d of attention, no last norm or positions.

    The network is config_9_j9, of 34,713,944 parameters, 8,928,512 of them not of embeddings.
    """
    choices = {"n_layer": 3, "d_model": 512, "div_val": 1}
    choices |= {"d_inner": [2021, 1487, 1356], "n_head": [4, 4, 8]}
    arch = GPT2_LTS_LM1B.architecture(choices)
    difference = 3 * ((5 * 512**2 + 2 * 512) - (4 * 512**2 + 4 * 512)) - 2 * 512
    assert sum(b.params for b in GPT2_LTS_LM1B.blocks(arch)) + 2 * 512 + difference == 8_928_512
    assert GPT2_LTS_LM1B.params(arch) + difference - 32 * 512 == 34_713_944
    assert GPT2_LTS_LM1B.embedding_params(arch) - 32 * 512 == 25_735_168


# ---- the network, against a direct computation


def network(d_embed: int, div_val: int) -> LTSNetwork:
    choices = {"d_model": 16, "d_embed": d_embed, "div_val": div_val}
    layers = {"n_layer": 2, "d_inner": (24, 40), "n_head": (2, 4)}
    built = GPT2_LTS.build(Architecture("gpt2-lts", {**choices, **layers}), seed=1)
    assert isinstance(built, LTSNetwork)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # so that no bias is 0
        for p in built.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.05)
    return built


TOKENS = torch.tensor([[0, 19996, 19997, 30000, 39996], [39997, 50263, 7, 40000, 1]])


@pytest.mark.parametrize(("d_embed", "div_val"), [(16, 1), (8, 1), (16, 2), (32, 4)])
@torch.no_grad()
def test_probabilities_are_those_of_the_adaptive_softmax(d_embed: int, div_val: int) -> None:
    """PyTorch's own has the same clusters, without their projections."""
    built = network(d_embed, div_val)
    hidden = torch.randn(10, 16, generator=torch.Generator().manual_seed(3))
    oracle = nn.AdaptiveLogSoftmaxWithLoss(16, 50264, [19997, 39997], div_val, head_bias=True)
    projected = bool(built.projections)
    assert projected == ((d_embed, div_val) != (16, 1))
    head = torch.cat([built.embedding.weight, built.cluster_weight])
    oracle.head.weight.data = head @ built.head_projection.weight if projected else head
    oracle.head.bias.data = torch.cat([built.token_bias[:19997], built.cluster_bias])
    log_probs = oracle.head(hidden).log_softmax(-1)
    wanted = [log_probs[:, :19997]]
    for i, (low, high) in enumerate([(19997, 39997), (39997, 50264)]):
        own = 0 if div_val == 1 else i + 1
        narrow = hidden @ built.projections[own].weight if projected else hidden
        logits = narrow @ built.tails[i].weight.T + built.token_bias[low:high]
        wanted.append(log_probs[:, 19997 + i, None] + logits.log_softmax(-1))
    found = built.predict(hidden).log_softmax(-1)
    torch.testing.assert_close(found, torch.cat(wanted, 1), rtol=1e-4, atol=1e-4)
    assert found.exp().sum(-1) == pytest.approx([1.0] * 10, abs=1e-4)


@pytest.mark.parametrize(("d_embed", "div_val"), [(16, 1), (8, 1), (16, 2), (32, 4)])
@torch.no_grad()
def test_a_token_has_the_vector_of_its_cluster(d_embed: int, div_val: int) -> None:
    built = network(d_embed, div_val)
    found = built.embed(TOKENS)
    for place, token in zip(found.flatten(0, 1), TOKENS.flatten().tolist(), strict=True):
        cluster = (token >= 19997) + (token >= 39997)
        table = [built.embedding, *built.tails][cluster]
        vector = table.weight[token - [0, 19997, 39997][cluster]]
        if built.projections:
            projection = built.projections[0 if div_val == 1 else cluster]
            vector = projection.weight @ vector
        torch.testing.assert_close(place, 4 * vector)


def test_tails_learn() -> None:
    built = network(32, 2)
    loss = functional.cross_entropy(built(TOKENS).flatten(0, 1), TOKENS.flatten())
    loss.backward()
    for name, p in built.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


# ---- folders


Install = Callable[..., None]


@pytest.fixture
def pinned(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Pin a folder instead of the published one, and put other contents into the cache."""

    def install(
        contents: dict[str, bytes], there: dict[str, bytes] | None = None, url: str | None = None
    ) -> None:
        source = BENCHMARKS[NAME]
        file, other = source.files
        file = replace(file, sha256=folder_digest(contents))
        changed = Registry[BuiltInBenchmark]("pinned", "benchmark", BenchmarkError)
        files = (file,) if url else (file, other)
        changed.register(NAME, replace(source, files=files, url=url or source.url))
        monkeypatch.setattr(loading, "BENCHMARKS", changed)
        monkeypatch.setattr(data_files, "BENCHMARKS", changed)
        for path, content in (contents if there is None else there).items():
            target = nowhere.with_name(NAME) / FOLDER / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    return install


def test_a_folder_is_read(pinned: Install) -> None:
    pinned(lts_folder())
    benchmark = load_benchmark(NAME)
    assert benchmark.space == "gpt2-lts"
    assert benchmark.scores["wikitext-103"].tolist() == [-(40 - n / 3) for n in range(12)]
    assert [a["d_inner"][0] for a in benchmark.architectures] == [*range(600, 612)]
    assert [a["d_embed"] for a in benchmark.architectures][:3] == [128, 256, 512]
    assert [file.status for file in benchmark_info(NAME).files] == ["installed", "absent"]
    with pytest.raises(BenchmarkError, match="needs random_GPT2_lm1b"):
        load_benchmark(NAME, datasets=["lm1b"])


CHANGED = "config_1/j1/model_config.yaml"


def changed(old: str, new: str, path: str = CHANGED) -> dict[str, bytes]:
    found = lts_folder()
    assert old.encode() in found[path]
    return found | {path: found[path].replace(old.encode(), new.encode(), 1)}


SUMMARY = "ppl_summary.yaml"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (changed("valid_ppl: 40.0", "valid_ppl: .nan", SUMMARY), "must be a finite number"),
        (changed("valid_ppl: 40.0", "valid_ppl: x", SUMMARY), "must be a finite number, but got x"),
        (changed("valid_ppl", "other", SUMMARY), "must have the key valid_ppl"),
        (changed("config_1_j1", "config_9_j9", SUMMARY), "must have the file config_9/j9/model_"),
        (changed("config_1_j1", "config_1_j2", SUMMARY), "must have the key config_1_j2 once"),
        (changed("- 604", "- 100"), "d_inner[0] must be one of 512, 513, "),
        (changed("n_layer: 2", "n_layer: 3"), "d_inner must be a list of 3"),
        (changed("n_token: 50264", "n_token: 50257"), "n_token must be 50264, but got 50257"),
        (changed("- 19997", "- 20000"), "cutoffs must be [19997, 39997, 199997, 50264]"),
        (changed("tie_weight: true", "tie_weight: 1"), "tie_weight must be True, but got 1"),
        (changed("tgt_len: 192\n", ""), "must have the key tgt_len"),
        (changed("d_model: 128", "d_model: &a 128"), "must be plain YAML"),
        (changed("adaptive: true", "adaptive: !!python/object:x"), "must be plain YAML"),
        (changed("adaptive: true", "\xff"), "must be plain YAML"),
        (changed("- 604", "- 603"), None),
        (changed("d_inner:", "d_outer:"), "must have the key d_inner"),
    ],
)
def test_a_wrong_folder_is_one_line_and_nothing_is_written(
    contents: dict[str, bytes],
    message: str | None,
    pinned: Install,
    run: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pinned(contents)
    if message is None:
        assert len(load_benchmark(NAME).architectures) == 12
        return
    result = run("rank", "--benchmark", NAME, "--proxies", "params")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_lacks_or_adds_a_file_is_not_read(pinned: Install, nowhere: Path) -> None:
    contents = lts_folder()
    pinned(contents, {path: own for path, own in contents.items() if path != CHANGED})
    with pytest.raises(BenchmarkError, match=r"must have sha256 .* \(12 files of 202\): .*fetch"):
        load_benchmark(NAME)
    pinned(contents, contents | {"more.yaml": b""})
    with pytest.raises(BenchmarkError, match=r"\(14 files of 202\)"):
        load_benchmark(NAME)
    (nowhere.with_name(NAME) / FOLDER / "more.yaml").unlink()
    assert len(load_benchmark(NAME).architectures) == 12
    (nowhere.with_name(NAME) / FOLDER / "link").symlink_to("/etc")
    with pytest.raises(BenchmarkError, match="but got: link, which is no plain file"):
        load_benchmark(NAME)
    assert benchmark_info(NAME).files[0].status == "unreadable"


# ---- the download


@pytest.fixture
def fetched(
    pinned: Install, served: tuple[str, Path], run: Command, nowhere: Path
) -> Callable[[bytes], tuple[Any, Path]]:
    def fetch(packed: bytes) -> tuple[Any, Path]:
        url, folder = served
        (folder / "all.tar.gz").write_bytes(packed)
        pinned(lts_folder(), {}, f"{url}/all.tar.gz")
        return run("bench", "fetch", NAME), nowhere.with_name(NAME)

    return fetch


def test_a_folder_is_fetched_and_replaced(fetched: Any) -> None:
    contents = lts_folder()
    beside = tarfile.TarInfo("archai-0/README.md")
    packed = archive(contents, beside, link("archai-0/latest", "README.md"))
    result, folder = fetched(packed)
    assert (result.code, result.err) == (0, "")
    assert [path.name for path in folder.iterdir()] == [FOLDER]
    found = {p.relative_to(folder / FOLDER).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    assert {path: own.read_bytes() for path, own in found.items()} == contents
    assert len(load_benchmark(NAME).architectures) == 12
    found[CHANGED].write_bytes(b"changed")
    (folder / FOLDER / "surplus").mkdir()
    (folder / FOLDER / "surplus" / "file").touch()
    assert fetched(packed)[0].code == 0
    assert found[CHANGED].read_bytes() == contents[CHANGED]
    assert not (folder / FOLDER / "surplus").exists()
    assert "installed" in fetched(b"no archive")[0].out


def member(name: str, size: int = 0) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size = size
    return found


WHOLE = lts_folder()
IN = f"archai-0/{INSIDE}"
HARD = tarfile.LNKTYPE


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (archive(WHOLE)[:-40], "must be a whole .tar.gz archive"),
        (archive(WHOLE)[:300], "must be a whole .tar.gz archive"),
        (b"not an archive", "must be a whole .tar.gz archive"),
        (b"", "must be a whole .tar.gz archive"),
        (archive(WHOLE, member("archai-0/../../../escaped")), "must have members inside it"),
        (archive(WHOLE, member(f"{IN}/../../escaped")), "must have members inside it"),
        (archive(WHOLE, member("/tmp/escaped")), "must have members inside it"),
        (archive(WHOLE, link(f"{IN}/a", "/etc/passwd")), "must have plain files"),
        (archive(WHOLE, link(f"{IN}/a", f"{IN}/ppl_summary.yaml", HARD)), "must have plain files"),
        (archive(WHOLE, link(IN, "/etc")), "must have plain files"),
        (archive(WHOLE, member(f"{IN}/big", 2**24)), "must have at most 16777216 bytes"),
        (
            archive(WHOLE, member("archai-0/bomb", 2**22)),
            "must have at most 1048576 bytes unpacked",
        ),
        (gzip.compress(member("archai-0/vast", 2**62).tobuf()), "bytes unpacked, but 'archai-0/v"),
        (archive(WHOLE, member(f"{IN}/{SUMMARY}")), "must have each file once"),
        (archive(WHOLE, member(f"{IN}/more.yaml")), "must have sha256"),
        (archive({SUMMARY: WHOLE[SUMMARY]}), "(1 files of 202): not stored"),
        (archive(WHOLE, folder="archai-0/elsewhere"), "(0 files of 202): not stored"),
    ],
)
def test_a_wrong_archive_is_one_line_and_nothing_is_stored(
    packed: bytes,
    message: str,
    fetched: Callable[[bytes], tuple[Any, Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if message.endswith("unpacked"):
        monkeypatch.setattr(tar_archives, "MAX_ARCHIVE_BYTES", 2**20)
    before = {*tmp_path.rglob("*")}
    result, folder = fetched(packed)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err
    new = {*tmp_path.rglob("*")} - before
    assert not folder.exists()
    assert {path.name for path in new} <= {"all.tar.gz"}


def test_every_space_says_what_its_sizes_depend_on() -> None:
    """The features of a regression and a draw exist for both spaces."""
    for name in ("gpt2-lts", "gpt2-lts-lm1b"):
        space = get_space(name)
        arch = space.sample(random.Random(0))
        assert len(space.features(arch)) == 12
