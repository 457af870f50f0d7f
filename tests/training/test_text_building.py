"""Tables built by training language models on texts."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.building import build_table
from scipy.stats import kendalltau

from autoprox import cli
from autoprox.benchmarks import load_benchmark
from autoprox.errors import AutoproxError
from autoprox.searchspaces import get_space
from autoprox.training.benchmark_training import TrainingJob
from autoprox.training.recipes import ImageRecipe, TextRecipe

SPACE = "gpt2-nano"
RECIPE = TextRecipe(epochs=1)

Run = Callable[..., tuple[int, str, str]]


def save(path: Path, seed: int) -> Path:
    rng = random.Random(seed)
    words = ["wolf", "bear", "frog", "hawk", "größer", "and"]
    path.write_text(" ".join(rng.choice(words) for _ in range(400)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("texts")
    return [save(folder / "one.txt", 1), save(folder / "two.txt", 2)]


@pytest.fixture(scope="module")
def built(texts: list[Path]) -> Path:
    out = texts[0].parent / "table.json"
    build_table(SPACE, texts, out, samples=10, seeds=2, recipe=RECIPE)
    return out


def test_the_table_is_a_benchmark_where_less_is_better(built: Path) -> None:
    benchmark, table = load_benchmark(built), json.loads(built.read_text())
    assert benchmark.space == SPACE
    assert table["datasets"]["one"] == {"classes": 256, "higher_is_better": False}
    for dataset, scores in benchmark.scores.items():
        runs = np.array([entry["runs"][dataset] for entry in table["architectures"]])
        assert scores == pytest.approx(-runs.mean(axis=1), abs=1e-4)
        assert runs.min() > 1
        assert runs.max() < 400
        ceiling = table["training"]["noise_ceiling"][dataset]
        assert ceiling == pytest.approx(kendalltau(*runs.T).statistic)


def test_the_table_says_how_it_was_measured(built: Path, texts: list[Path]) -> None:
    training = json.loads(built.read_text())["training"]
    size = texts[0].stat().st_size
    assert training["measure"] == "perplexity"
    assert training["recipe"]["length"] == 64
    assert "mirror" not in training["recipe"]
    sizes = {"bytes": size - round(size / 5), "held_out": round(size / 5)}
    assert training["datasets"]["one"] == {
        "classes": 256,
        **sizes,
        "sha256": training["datasets"]["one"]["sha256"],
    }


def test_results_are_those_of_their_training(built: Path, texts: list[Path]) -> None:
    result = json.loads(min(built.with_name("table.json.parts").glob("1-two-*")).read_text())
    space = get_space(SPACE)
    data = RECIPE.load(texts[1], space)
    job = TrainingJob(space.architecture(result["arch"]), "two", texts[1], data.digest, 1)
    network = space.build(job.architecture, 256, job.stream)
    assert RECIPE.train(network, data, job.stream) == result["loss"]
    assert RECIPE.score(network, data) == result["perplexity"]


def test_nothing_is_trained_twice(built: Path, texts: list[Path]) -> None:
    calls: list[tuple[Any, ...]] = []
    before = built.read_text()
    build_table(
        SPACE, texts, built, samples=10, recipe=RECIPE, progress=lambda *call: calls.append(call)
    )
    assert calls == [("train", 40, 40, "")]
    assert built.read_text() == before
    with pytest.raises(AutoproxError, match=r'has results of recipe .*"length": 64.*: 32'):
        build_table(SPACE, texts, built, samples=10, recipe=TextRecipe(epochs=1, length=32))


def test_a_failed_training_is_recorded(
    texts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, calls = TextRecipe.score, []

    def overflowing(*args: Any) -> float:
        calls.append(args)
        return math.exp(1000) if len(calls) == 2 else score(*args)

    monkeypatch.setattr(TextRecipe, "score", overflowing)
    notes: list[str] = []
    table = build_table(
        *(SPACE, texts[:1], tmp_path / "t.json"),
        samples=11,
        seeds=1,
        recipe=RECIPE,
        progress=lambda task, done, total, note: notes.append(note),
    )
    (failure,) = table["training"]["failures"]
    assert failure["failure"] == "OverflowError: math range error"
    assert notes[2] == "one: OverflowError: math range error"
    assert notes[1].startswith("one: perplexity ")
    assert len(table["architectures"]) == 10


def test_without_a_recipe_it_is_that_of_the_space(texts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(AutoproxError, match=r"gpt2-nano must be trained on text, but got images"):
        build_table(SPACE, texts, tmp_path / "t.json", recipe=ImageRecipe())
    (tmp_path / "short.txt").write_text("a" * 300)
    with pytest.raises(AutoproxError, match=r"more than 64 bytes, but short has 300 in all$"):
        build_table(SPACE, [tmp_path / "short.txt"], tmp_path / "t.json", recipe=TextRecipe())


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], texts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.chdir(texts[0].parent)

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            cli.main(("bench", "build", "--out=t.json", "--workers=1", *arguments))
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return command


def test_command(run: Run, texts: list[Path]) -> None:
    small = ("--samples=10", "--seeds=1", "--epochs=1")
    code, out, err = run(f"--space={SPACE}", "--text=one.txt", "--text=two.txt", *small, "--json")
    assert code == 0
    assert err.splitlines()[-1].startswith("train 20/20")
    details = json.loads(out)
    assert (details["architectures"], details["failures"]) == (10, [])
    for dataset, scores in load_benchmark(texts[0].with_name("t.json")).scores.items():
        found = details["datasets"][dataset]
        assert (found["lowest"], found["highest"]) == (-scores.max(), -scores.min())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space=gpt2-nano"], "either images or text must be given, but got neither"),
        (
            ["--space=gpt2-nano", "--images=one.txt", "--text=one.txt"],
            "either images or text must be given, but got both",
        ),
        (
            ["--space=gpt2-nano", "--images=one.txt"],
            "gpt2-nano must be trained on text, but got images: one.txt",
        ),
        (
            ["--space=autoformer-nano", "--text=one.txt"],
            "autoformer-nano must be trained on images, but got text: one.txt",
        ),
        (
            ["--space=gpt2-nano", "--text=one.txt", "--mirror=one"],
            "mirror must be given with images only, but got text",
        ),
        (
            ["--space=gpt2-nano", "--text=one.txt", "--teacher=my:teacher"],
            "teacher must be given with images only, but got text",
        ),
        (["--space=gpt2-nano", "--text=none"], "none must be a text file, but does not exist"),
        (["--space=gpt2-nano", "--text=."], ". must be a text file, but is none"),
        (["--space=gpt2-nano", "--text=one.txt", "--epochs=0"], "epochs must be a whole number"),
        (
            ["--space=gpt2-nano", "--text=one.txt", "--text=./one.txt"],
            "datasets must be at paths of different names, at least one, but got one.txt, one.txt",
        ),
    ],
)
def test_wrong_use(run: Run, arguments: list[str], message: str, texts: list[Path]) -> None:
    before = sorted(texts[0].parent.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert sorted(texts[0].parent.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a text must be long enough to hold out more than 64 bytes, but odd has 0 in all"),
        (b"\xff\xfe" * 400, "odd.txt must be a text in UTF-8 without zeros, but byte 0 is 255"),
    ],
)
def test_wrong_text(run: Run, content: bytes, message: str, texts: list[Path]) -> None:
    texts[0].with_name("odd.txt").write_bytes(content)
    code, out, err = run("--space=gpt2-nano", "--text=odd.txt")
    assert (code, out, err) == (2, "", f"error: {message}\n")
