"""The committed scores that ready-made proxies are fitted to."""

from pathlib import Path

import numpy as np
import pytest

from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.language import parse_expression
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.zoo.prior_file import BOTH, read_prior_file

FILES = sorted((Path(__file__).parents[2] / "runs" / "prior").glob("*.npz"))
FEW = 5  # networks


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_have_scores_of_terms_and_no_labels(path: Path) -> None:
    with np.load(path) as file:  # without pickles
        assert set(file) == {"terms", "logs", "networks"}
        logs, networks = file["logs"], file["networks"]
        assert logs.dtype == np.float16
        assert np.isfinite(logs).all()
        datasets, rest = divmod(logs.shape[1], len(networks))
        assert not rest
        assert len(set(file["terms"].tolist())) == len(logs)
        each = logs.astype(float).reshape(len(logs), datasets, len(networks))
        np.testing.assert_allclose(each.mean(axis=2) / each.std(axis=2), 0, atol=0.01)
    assert path.stat().st_size < 200_000


def test_each_table_of_the_proxies_has_its_file() -> None:
    spaces = {own.space for own in read_prior_file().groups[BOTH].every.tables}
    assert {path.stem.removesuffix("-glue") for path in FILES} == spaces


@pytest.mark.parametrize("space", ["autoformer-nano", "pit-nano", "gpt2-nano"])
def test_scores_are_those_of_the_networks(space: str) -> None:
    """A few terms on a few networks, measured here: differences, since scores are centred."""
    [path] = [path for path in FILES if path.stem == space]
    problem = SpaceProblem(EvolveConfig(space=space, zoo=(), workers=1, device="cpu"))
    with np.load(path) as file:
        networks, logs = file["networks"][:FEW], file["logs"].astype(float)
        logs = logs.reshape(len(logs), -1, len(file["networks"]))[:, :, :FEW]
        chosen = np.random.default_rng(0).choice(len(logs), 6, replace=False)
        terms = [parse_expression(str(file["terms"][index])) for index in chosen]
    untrained = [problem.networks()[index] for index in networks]
    found = TreeEvaluator(UncachedMatrices(problem.setting(), untrained)).evaluate(terms).values
    expected = np.log(np.abs(found))
    for own, term in zip(logs[chosen], expected, strict=True):
        spread = np.abs(own).max() + 1e-3
        difference = (own - own[:, :1]) - (term - term[:, :1])
        np.testing.assert_allclose(difference / spread, 0, atol=0.005)
