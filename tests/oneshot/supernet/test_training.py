"""The training of supernets: against a plain loop, in parts, on two processes."""

import hashlib
import math
import multiprocessing
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.calls import fail_first
from helpers.images import save_images
from torch.nn import functional

from autoprox.errors import MeasurementError
from autoprox.inputs.training_datasets import ImageDataset, load_images
from autoprox.oneshot.supernet.regularisation import apply_stochastic_depth, drop_path_rates
from autoprox.oneshot.supernet.shared_weights import (
    Supernet,
    SupernetCheckpointHeader,
    SupernetError,
    read_supernet,
    read_supernet_checkpoint,
    write_supernet_checkpoint,
)
from autoprox.oneshot.supernet.subnet_samplers import SUBNET_SAMPLERS
from autoprox.oneshot.supernet.training import (
    SupernetPlan,
    SupernetRecipe,
    SupernetTraining,
    ignore_epoch,
    run_distributed,
    train_to_checkpoint,
)
from autoprox.searchspaces import Architecture, get_space

SPACE = get_space("autoformer-nano")
PLAIN = SupernetRecipe(epochs=2, batch_size=32, drop_path=0.0, warmup=0.0, crop=0)
RICH = SupernetRecipe(
    epochs=3, batch_size=32, repeats=2, mixup=0.8, cutmix=1.0, erasing=0.25, crop=1
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_images(tmp_path_factory.mktemp("images") / "small.npz")


@pytest.fixture(scope="module")
def data(path: Path) -> ImageDataset:
    return load_images(path, SPACE.input_shape)


def seeded(text: str) -> torch.Generator:
    digest = hashlib.sha256(text.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def small(width: int = 16, depth: int = 1) -> Architecture:
    layers = {"mlp_ratio": [1.0] * depth, "num_heads": [2] * depth}
    return SPACE.architecture({"hidden_dim": width, "depth": depth, **layers})


def weights(supernet: Supernet) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in supernet.parameters.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_training_one_subnet_is_training_a_plain_network(data: ImageDataset) -> None:
    """AdamW by hand: warm-up none, cosine, decay of layers' weights alone."""
    arch, supernet = small(depth=2), Supernet(SPACE, data.classes)
    network = supernet.extract(arch)
    training = SupernetTraining(supernet, data, PLAIN, "single", [arch])
    losses = [training.train_epoch() for _ in range(2)]
    steps, means = 2 * (len(data.labels) // 32), []
    decayed = [p for n, p in network.named_parameters() if p.dim() > 1 and "." in n]
    others = [p for p in network.parameters() if all(p is not own for own in decayed)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}], weight_decay=0.05
    )
    for epoch in range(2):
        means.append(0.0)
        stream = seeded(f"0 order {epoch}")
        for place, chosen in enumerate(PLAIN.order(len(data.labels), stream)):
            images, labels = PLAIN.prepare(data, chosen, torch.Generator())
            step = epoch * steps // 2 + place
            for group in optimizer.param_groups:
                cosine = (1 + math.cos(math.pi * step / steps)) / 2
                group["lr"] = 1e-5 + (3e-3 - 1e-5) * cosine
            loss = functional.cross_entropy(network(images), labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            means[-1] += loss.item() / (steps // 2)
    assert losses == pytest.approx(means, rel=1e-3)
    for name, value in supernet.extract(arch).state_dict().items():
        torch.testing.assert_close(value, network.state_dict()[name], rtol=1e-2, atol=1e-3)


def test_it_learns(data: ImageDataset) -> None:
    recipe = PLAIN.model_copy(update={"epochs": 8})
    training = SupernetTraining(Supernet(SPACE, data.classes), data, recipe, "sandwich")
    losses = [training.train_epoch() for _ in range(8)]
    assert losses[-1] < losses[0] - 0.2


def test_what_is_not_drawn_stays_but_for_its_decay(data: ImageDataset) -> None:
    supernet = Supernet(SPACE, data.classes)
    before = weights(supernet)
    SupernetTraining(supernet, data, PLAIN, "single", [small()]).train_epoch()
    after = weights(supernet)
    assert not torch.equal(before["blocks.0.fc1.weight"], after["blocks.0.fc1.weight"])
    kept = after["blocks.4.fc1.weight"] / before["blocks.4.fc1.weight"]
    assert kept.max() < 1
    assert kept.min() == pytest.approx(kept.max().item(), rel=1e-4)
    assert torch.equal(before["blocks.4.norm1.weight"], after["blocks.4.norm1.weight"])


@pytest.mark.parametrize("sampler", ["uniform", "sandwich"])
def test_a_training_that_goes_on_ends_the_same(
    data: ImageDataset, tmp_path: Path, sampler: str
) -> None:
    whole = SupernetTraining(Supernet(SPACE, data.classes), data, RICH, sampler)
    losses = [whole.train_epoch() for _ in range(3)]
    begun = SupernetTraining(Supernet(SPACE, data.classes), data, RICH, sampler)
    assert begun.train_epoch() == losses[0]
    file = tmp_path / "begun.safetensors"
    write_supernet_checkpoint(
        file, begun.state(), SupernetCheckpointHeader(SPACE.name, data.classes, 1, begun.steps)
    )
    again = SupernetTraining(Supernet(SPACE, data.classes, seed=9), data, RICH, sampler)
    state, header = read_supernet_checkpoint(file, SPACE)
    again.restore(state, header.epoch, header.steps)
    assert [again.train_epoch(), again.train_epoch()] == losses[1:]
    assert same(weights(again.supernet), weights(whole.supernet))


def test_two_processes_do_the_same_step(path: Path, data: ImageDataset, tmp_path: Path) -> None:
    """Without chance in the images the mean of both gradients is that of the whole batch."""
    recipe = PLAIN.model_copy(update={"epochs": 1, "label_smoothing": 0.0})
    plan = SupernetPlan(SPACE, path, recipe, "sandwich", (), 0)
    losses: list[float] = []
    found = []
    for processes in (1, 2):
        file = tmp_path / f"{processes}.safetensors"
        report = lambda epoch, loss: losses.append(loss)  # noqa: E731
        run_distributed(processes, "cpu", file.parent, report, train_to_checkpoint, plan, file)
        found.append(weights(read_supernet(file, SPACE)))
    assert len(losses) == 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], rtol=1e-2, atol=1e-3)


def test_a_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no such thing"):
        run_distributed(2, "cpu", tmp_path, ignore_epoch, fail_first)
    for other in multiprocessing.active_children():
        other.join(10)
        assert other.exitcode == -signal.SIGKILL


def test_repeated_images_are_in_the_same_batch() -> None:
    order = RICH.order(100, torch.Generator().manual_seed(0))
    assert order.shape == (3, 32)
    for batch in order:
        assert len(batch.unique()) == 16
        assert torch.equal(batch[:16], batch[16:])
    assert len(order.unique()) == 48


def test_the_learning_rate_goes_up_and_down_to_the_last() -> None:
    recipe = SupernetRecipe(learning_rate=1e-3, final_rate=2e-5, warmup=0.1)
    rates = [1e-3 * recipe.factor(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(1e-5)
    assert max(rates) == pytest.approx(1e-3, rel=0.03)
    assert rates.index(max(rates)) in range(95, 100)
    assert rates[-1] == pytest.approx(2e-5, rel=0.01)


def test_stochastic_depth_leaves_out_branches_in_training_alone() -> None:
    network = SPACE.build(small(depth=3), 2)
    rates = drop_path_rates(network, 0.9)
    assert list(rates.values()) == [0.0, 0.45, 0.9]
    images = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    plain = network.eval()(images)
    apply_stochastic_depth(network, rates, torch.Generator().manual_seed(0))
    assert torch.equal(network(images), plain)
    outputs: list[torch.Tensor] = []
    network.blocks[2].fc2.register_forward_hook(lambda *args: outputs.append(args[2]))
    network.train()(images.expand(400, -1, -1, -1))
    left_out = (outputs[0] == 0).flatten(1).all(1)
    assert left_out.float().mean() == pytest.approx(0.9, abs=0.05)
    kept = outputs[0][~left_out][0] * (1 - 0.9)
    assert kept.abs().max() > 0


def draws(sampler: str, count: int, subnets: list[Architecture]) -> list[list[Architecture]]:
    draw = SUBNET_SAMPLERS[sampler].draw
    return [draw(SPACE, subnets, random.Random(i)) for i in range(count)]


def test_samplers() -> None:
    for drawn in draws("uniform", 5, []):
        [arch] = drawn
        SPACE.validate(arch)
    for drawn in draws("sandwich", 5, []):
        assert drawn[:2] == [SPACE.largest(), SPACE.smallest()]
        assert len(drawn) == 4
    assert draws("single", 2, [small()]) == [[small()]] * 2


def test_preferred_draws_a_group_and_then_a_member() -> None:
    """Of three of one width and depth, and one of another, the latter is drawn half of the time."""
    layers = ((1.0, 1), (2.0, 1), (1.0, 2))
    alike = [
        SPACE.architecture({"hidden_dim": 16, "depth": 1, "mlp_ratio": [r], "num_heads": [h]})
        for r, h in layers
    ]
    other = small(width=24)
    drawn = [arch for [arch] in draws("preferred", 600, [*alike, other])]
    assert drawn.count(other) / 600 == pytest.approx(1 / 2, abs=0.06)
    for arch in alike:
        assert drawn.count(arch) / 600 == pytest.approx(1 / 6, abs=0.06)


@pytest.mark.parametrize(
    ("sampler", "count", "message"),
    [
        ("uniform", 1, "the sampler uniform must be given 0 subnets, but got 1"),
        ("preferred", 0, "the sampler preferred must be given at least 1 subnets, but got 0"),
        ("single", 2, "the sampler single must be given 1 subnets, but got 2"),
        ("sandwhich", 0, r"unknown sampler 'sandwhich' \(did you mean sandwich\?\)"),
    ],
)
def test_samplers_and_numbers_of_subnets(
    data: ImageDataset, sampler: str, count: int, message: str
) -> None:
    subnets = [small(), small(width=24)][:count]
    with pytest.raises(SupernetError, match=message):
        SupernetTraining(Supernet(SPACE, data.classes), data, PLAIN, sampler, subnets)


def checkpoint(folder: Path, **changed: Any) -> Path:
    file = folder / "some.safetensors"
    supernet = Supernet(SPACE, 3)
    state = {f"weight.{name}": value for name, value in weights(supernet).items()}
    write_supernet_checkpoint(
        file, state, replace(SupernetCheckpointHeader(SPACE.name, 3, 1, 2), **changed)
    )
    return file


def test_a_checkpoint_of_another_space_or_version(tmp_path: Path) -> None:
    with pytest.raises(SupernetError, match="checkpoint of space autoformer-nano, but is of pit"):
        read_supernet_checkpoint(checkpoint(tmp_path, space="pit"), SPACE)
    with pytest.raises(SupernetError, match="checkpoint of format 1, but is of 2"):
        read_supernet_checkpoint(checkpoint(tmp_path, format=2), SPACE)
    with pytest.raises(SupernetError, match=r"must have head.weight of \[4, 128\], as autoformer"):
        read_supernet_checkpoint(checkpoint(tmp_path, classes=4), SPACE)


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for name in ("text", "none"):
        with pytest.raises(SupernetError, match=f"{name} must be a supernet's checkpoint, but"):
            read_supernet_checkpoint(tmp_path / name, SPACE)
