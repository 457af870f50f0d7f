"""Each statistic against plain PyTorch: a copy of the network, hooks, `backward` and `.grad`."""

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions
from helpers.networks import SPACE, everything, noise, prepared, tiny
from helpers.plain import ARCH, SINGLE, assert_same, plainly
from torch import Tensor, nn

from autoprox.inputs.batch import Batch
from autoprox.language import STATISTICS, Statistic
from autoprox.searchspaces import TransformerNetwork
from autoprox.statistics.collector import collect_statistics

QUANTITIES = ("msa.weight", "msa.grad", "mlp.weight", "mlp.grad", "mlp.act", "mlp.act_grad")


@pytest.fixture
def network() -> TransformerNetwork:
    return SPACE.build(ARCH, classes=4, seed=3)


@pytest.fixture
def batch() -> Batch:
    return noise(4, size=3)


def named(*names: str) -> list[Statistic]:
    return [STATISTICS[name] for name in names]


def test_data_probe(network: TransformerNetwork, batch: Batch) -> None:
    def cross_entropy(logits: Tensor, last: Tensor) -> Tensor:
        chosen = logits[torch.arange(3), batch.labels]
        return (logits.exp().sum(1).log() - chosen).mean()

    found = collect_statistics(network, batch, SINGLE)
    assert_same(found, "", plainly(network, cross_entropy, batch.inputs))


def test_ones_probe(network: TransformerNetwork, batch: Batch) -> None:
    found = collect_statistics(network, batch, SINGLE)
    one_input = torch.ones(1, *SPACE.input_shape)
    expected = plainly(network, lambda logits, last: logits.sum(), one_input, absolute=True)
    assert_same(found, "ones.", expected)


def test_ntk_probe(network: TransformerNetwork, batch: Batch) -> None:
    found = collect_statistics(network, batch, SINGLE, seed=5)
    # The last block ends with `x + fc2(...)`, so the gradient at fc2's output is the vector itself.
    signs = found[STATISTICS["ntk.mlp.act_grad"]][-1].reshape(3, 17, 9)
    expected = plainly(network, lambda logits, last: (last * signs).sum(), batch.inputs)
    assert_same(found, "ntk.", expected)


def test_ntk_vector_is_rademacher_for_every_sample_token_and_feature(
    network: TransformerNetwork, batch: Batch
) -> None:
    def signs(seed: int) -> Tensor:
        found = collect_statistics(network, batch, named("ntk.mlp.act_grad"), seed=seed)
        return found[STATISTICS["ntk.mlp.act_grad"]][-1].reshape(3, 17, 9)

    drawn = torch.stack([signs(seed) for seed in range(40)])
    assert drawn.abs().eq(1).all()
    assert drawn.mean(0).abs().max() < 5 / 40**0.5
    correlations = torch.corrcoef(drawn.flatten(1).T)
    others = correlations[~torch.eye(len(correlations), dtype=torch.bool)]
    assert others.abs().max() < 0.9
    assert others.mean().abs() < 0.01
    assert torch.equal(signs(7), signs(7))


def test_ntk_squared_gradient_norm_is_unbiased() -> None:
    network = SPACE.build(tiny(4, (1, 1.0)), classes=2)
    batch = noise(2, size=1)
    weights = [layer.weight for _, layer in network.layers()]
    outputs: list[Tensor] = []
    network.final_block.register_forward_hook(lambda *seen: outputs.append(seen[2]))
    network(batch.inputs)
    exact = 0.0
    for entry in outputs[0].flatten():
        gradients = torch.autograd.grad(entry, weights, retain_graph=True)
        exact += sum(float(gradient.square().sum()) for gradient in gradients)
    needs = named("ntk.msa.grad", "ntk.mlp.grad")
    draws = []
    for seed in range(300):
        found = collect_statistics(network, batch, needs, seed=seed)
        draws.append(sum(float(m.square().sum()) for matrices in found.values() for m in matrices))
    error = np.std(draws) / 300**0.5
    assert error < 0.04 * exact
    assert abs(np.mean(draws) - exact) < 3 * error


@pytest.mark.parametrize("stride", [2, 3, 20])
def test_thinning_keeps_every_nth_row_and_column(
    network: TransformerNetwork, batch: Batch, stride: int
) -> None:
    whole = collect_statistics(network, batch, SINGLE)
    thinned = collect_statistics(network, batch, SINGLE, stride=stride)
    for statistic in SINGLE:
        for matrix, kept in zip(whole[statistic], thinned[statistic], strict=True):
            samples = 1 if statistic.probe == "ones" else 3
            if statistic.quantity.startswith("act"):
                expected = [sample[::stride, ::stride] for sample in matrix.split(17)]
                assert len(expected) == samples
            else:
                expected = [matrix[::stride, ::stride]]
            assert torch.equal(kept, torch.cat(expected))
            assert kept.is_contiguous()
            assert kept.untyped_storage().nbytes() == 4 * kept.numel()


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("probe", ["", "ones.", "ntk."])
def test_the_network_is_left_as_it_was_found(
    network: TransformerNetwork, batch: Batch, probe: str, quantity: str
) -> None:
    before = list(everything(prepared(network)))
    collect_statistics(network, batch, named(f"{probe}{quantity}"))
    assert list(everything(network)) == before


def test_the_network_is_left_as_it_was_found_by_a_pass_that_fails(
    network: TransformerNetwork, batch: Batch
) -> None:
    def fail(*seen: object) -> None:
        raise RuntimeError("broken layer")

    network.head.register_forward_hook(fail)
    before = list(everything(prepared(network)))
    with pytest.raises(RuntimeError, match="broken layer"):
        collect_statistics(network, batch, named("mlp.act_grad"))
    assert list(everything(network)) == before


def test_what_is_measured_is_a_copy(network: TransformerNetwork, batch: Batch) -> None:
    found = collect_statistics(network, batch, SINGLE)
    before = [matrix.clone() for matrices in found.values() for matrix in matrices]
    for parameter in network.parameters():
        parameter.data.zero_()
    after = [matrix for matrices in found.values() for matrix in matrices]
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize(
    ("names", "forward", "backward"),
    [
        (["msa.weight", "ones.mlp.weight", "ntk.mlp.weight"], 0, []),
        (["mlp.act"], 1, []),
        (["mlp.act", "ones.mlp.act", "msa.weight"], 2, []),
        (["mlp.grad"], 1, [4]),
        (["msa.grad", "mlp.grad", "mlp.act", "mlp.act_grad"], 1, [12]),
        (["mlp.act_grad", "ones.msa.grad"], 2, [4, 4]),
        (["msa.grad", "ntk.mlp.act_grad"], 1, [4, 4]),
        (["msa.grad", "ones.mlp.grad", "ntk.mlp.act_grad"], 2, [4, 4, 4]),
    ],
)
def test_only_the_passes_that_are_needed_are_run(
    network: TransformerNetwork,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    forward: int,
    backward: list[int],
) -> None:
    forwards: list[object] = []
    backwards: list[int] = []
    grad = torch.autograd.grad

    def counted(loss: Tensor, inputs: list[Tensor], **options: bool) -> tuple[Tensor, ...]:
        backwards.append(len(inputs))
        return grad(loss, inputs, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    network.register_forward_hook(lambda *seen: forwards.append(seen))
    found = collect_statistics(network, batch, named(*names))
    assert sorted(map(str, found)) == sorted(names)
    assert len(forwards) == forward
    assert backwards == backward


def test_a_pass_without_gradients_keeps_no_graph(network: TransformerNetwork, batch: Batch) -> None:
    seen: list[bool] = []
    network.register_forward_hook(lambda *args: seen.append(args[2].requires_grad))
    collect_statistics(network, batch, named("mlp.act"))
    collect_statistics(network, batch, named("mlp.act_grad"))
    assert seen == [False, True]


def test_only_gradients_that_are_needed_are_recorded(
    network: TransformerNetwork, batch: Batch
) -> None:
    recorded: set[str] = set()
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):

            def note(module: nn.Module, inputs: object, name: str = name) -> None:
                recorded.update([name] if module.weight.requires_grad else [])

            module.register_forward_pre_hook(note)
    collect_statistics(network, batch, named("mlp.grad", "mlp.act_grad", "msa.weight"))
    assert recorded == {f"blocks.{block}.{layer}" for block in (0, 1) for layer in ("fc1", "fc2")}


def test_a_pass_mixes_no_devices(batch: Batch) -> None:
    # Neither autograd nor indexing accepts a fake CUDA tensor where torch has no CUDA.
    with torch.device("meta"):
        network = SPACE.build(ARCH, classes=4)
    found = collect_statistics(network, batch, SINGLE, stride=2)
    assert {m.device.type for matrices in found.values() for m in matrices} == {"meta"}


CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "seed": ({"seed": 1}, "same"),
    "stride": ({"stride": 2}, "same"),
    "images": ({}, "images"),
    "labels": ({}, "labels"),
    "classes": ({}, "classes"),
    "name": ({}, "name"),
}


def key_batches() -> dict[str, Batch]:
    first = Batch(noise(4).inputs, torch.tensor([0, 1]), 4, "")
    return {
        "same": first,
        "name": first,
        "images": Batch(noise(4, seed=1).inputs, first.labels, 4, ""),
        "labels": Batch(first.inputs, first.labels.flip(0), 4, ""),
        "classes": Batch(first.inputs, first.labels, 5, ""),
    }


@pytest.mark.parametrize("change", CHANGES)
def test_statistics_have_the_same_key_where_they_are_the_same(change: str) -> None:
    """Measured on both sides of a change, a statistic differs exactly if its key does."""
    options, dataset = CHANGES[change]
    before, after = Conditions(SPACE, key_batches()), Conditions(SPACE, key_batches(), **options)
    found = dict(before.measure(ARCH, {"same": SINGLE}))["same"]
    changed = dict(after.measure(ARCH, {dataset: SINGLE}))[dataset]
    same = {
        statistic: all(
            a.shape == b.shape and torch.equal(a, b)
            for a, b in zip(found[statistic], changed[statistic], strict=True)
        )
        for statistic in SINGLE
    }
    keys = {s: before.key(ARCH, "same", s) == after.key(ARCH, dataset, s) for s in SINGLE}
    assert keys == same
    assert all(keys.values()) == (change == "name")


def test_keys_differ_between_architectures_spaces_and_statistics() -> None:
    setting = Conditions(SPACE, key_batches())
    elsewhere = type(ARCH)("another-space", dict(ARCH.choices))
    archs = [ARCH, elsewhere, tiny(9, (2, 2.0), (1, 2.0))]
    keys = {setting.key(arch, "same", statistic) for arch in archs for statistic in SINGLE}
    assert len(keys) == len(archs) * len(SINGLE)
    assert all(len(key) == 64 for key in keys)


def test_datasets_share_one_build(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Conditions(SPACE, {"few": noise(4), "many": noise(10)}, seed=2)
    seed = setting.network_seed(ARCH)
    expected = {
        name: collect_statistics(SPACE.build(ARCH, batch.classes, seed), batch, SINGLE, seed=seed)
        for name, batch in setting.batches.items()
    }
    builds: list[object] = []
    build = type(SPACE).build
    monkeypatch.setattr(
        type(SPACE), "build", lambda *args, **kw: builds.append(args) or build(*args, **kw)
    )
    found = dict(setting.measure(ARCH, {"few": SINGLE, "many": SINGLE}))
    assert len(builds) == 1
    for name in expected:
        for statistic in SINGLE:
            assert all(map(torch.equal, found[name][statistic], expected[name][statistic]))


def test_datasets_of_the_same_inputs_share_a_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = noise(4)
    batches = {
        "few": first,
        "many": Batch(first.inputs, torch.tensor([5, 9]), 10, ""),
        "other": noise(3, seed=1),
    }
    setting = Conditions(SPACE, batches, seed=2)
    expected = {name: dict(setting.measure(ARCH, {name: SINGLE}))[name] for name in batches}
    forwards: list[object] = []
    call = SPACE.network_type.forward
    monkeypatch.setattr(
        SPACE.network_type, "forward", lambda *args: forwards.append(args) or call(*args)
    )
    found = dict(setting.measure(ARCH, dict.fromkeys(batches, SINGLE)))
    assert len(forwards) == 1 + 1 + 1  # two batches of images, and the all-ones input
    for name in batches:
        for statistic in SINGLE:
            assert all(map(torch.equal, found[name][statistic], expected[name][statistic]))


def test_the_network_depends_on_the_seed_and_the_architecture() -> None:
    def weight(seed: int, arch: object) -> Tensor:
        setting = Conditions(SPACE, {"few": noise(4)}, seed=seed)
        found = dict(setting.measure(arch, {"few": named("msa.weight")}))
        return found["few"][STATISTICS["msa.weight"]][0][:7, :7]

    others = [tiny(9, (2, 2.0), (1, 3.0)), tiny(9, (2, 2.0))]
    drawn = [weight(0, ARCH), weight(1, ARCH), *(weight(0, arch) for arch in others)]
    assert torch.equal(weight(0, ARCH), drawn[0])
    assert len({tuple(matrix.flatten().tolist()) for matrix in drawn}) == len(drawn)
