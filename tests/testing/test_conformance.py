"""The suites on everything that is registered, and one bad item for each rule that matters."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from helpers.networks import SPACE, noise, tiny

from autoprox.benchmarks import BENCHMARKS, benchmark_info
from autoprox.evolution import STRATEGIES, EvolutionStrategy
from autoprox.export import EXPORTERS
from autoprox.language import LanguageError, Tree
from autoprox.language.quantities import QUANTITIES, Quantity
from autoprox.nas import ageing_evolution, blockwise_evolution, etas_search, random_search
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES, SearchStrategy
from autoprox.primitives import OPERATIONS, PrimitiveError, operation
from autoprox.searchspaces import SPACES, Architecture
from autoprox.testing import (
    check_benchmark,
    check_evolution_strategy,
    check_exporter,
    check_function_proxy,
    check_operation,
    check_proxy,
    check_search_strategy,
    check_space,
    check_statistic,
)
from autoprox.zoo import EXPRESSION_PROXIES, ExpressionProxy
from autoprox.zoo.functions import FUNCTION_PROXIES, SharedNetworkPasses, function_proxy

SMALL = {
    "random": random_search.RandomParameters(samples=60),
    "blockwise": blockwise_evolution.BlockwiseParameters(
        population=20, mutants=6, crossovers=4, steps=3
    ),
    "etas": etas_search.ETASParameters(samples=20, mutants=10, steps=3),
    "evolution": ageing_evolution.AgeingParameters(population=20, tournament=5, mutants=8, steps=3),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    check_operation(OPERATIONS[name])


@pytest.mark.parametrize("name", QUANTITIES)
def test_statistics(name: str) -> None:
    check_statistic(QUANTITIES[name])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks(name: str) -> None:
    if not benchmark_info(name).installed:
        pytest.skip(f"needs the files of {name}: set AUTOPROX_DATA to a folder that has them")
    check_benchmark(BENCHMARKS[name])


@pytest.mark.parametrize("name", SPACES)
def test_spaces(name: str) -> None:
    check_space(SPACES[name])


@pytest.mark.parametrize("name", EXPRESSION_PROXIES)
def test_expressions(name: str) -> None:
    check_proxy(EXPRESSION_PROXIES[name])


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_functions(name: str) -> None:
    network = SPACE.build(tiny(8, (1, 2.0), (2, 1.0)), classes=4, seed=1)
    check_function_proxy(FUNCTION_PROXIES[name], network, noise(4))


@pytest.mark.parametrize("name", STRATEGIES)
def test_evolution_strategies(name: str) -> None:
    check_evolution_strategy(STRATEGIES[name])


@pytest.mark.parametrize("name", SEARCH_STRATEGIES)
def test_search_strategies(name: str) -> None:
    check_search_strategy(SEARCH_STRATEGIES[name], SMALL[name])


@pytest.mark.parametrize("name", EXPORTERS)
def test_exporters(name: str) -> None:
    check_exporter(EXPORTERS[name])


def test_an_operation_that_waits_for_the_device_is_refused() -> None:
    @operation("map")
    def shifted(x: torch.Tensor) -> torch.Tensor:
        """x, one more, by two ways."""
        return x + 1 if x.sum().item() > 0 else 1 + x

    with pytest.raises(AssertionError, match="`shifted` never waits for the device"):
        check_operation(shifted)


def test_an_operation_that_breaks_its_proof_is_refused() -> None:
    @operation("map")
    def reciprocal(x: torch.Tensor) -> torch.Tensor:
        """1 / x, unguarded."""
        return 1 / x

    with pytest.raises(PrimitiveError, match="is finite on finite values"):
        check_operation(reciprocal)


def test_a_quantity_that_breaks_its_word_is_refused() -> None:
    def drawn(weight: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(weight)

    bad = {
        "has the shapes of msa.weight": torch.t,
        "is finite": torch.log,
        "is always the same": drawn,
        "leaves the network as it found it": lambda weight: weight.detach().zero_(),
    }
    for rule, matrix in bad.items():
        with pytest.raises(AssertionError, match=rule):
            check_statistic(Quantity("bad", "weight", ("weight",), matrix))


def test_a_benchmark_without_its_file_is_refused(tmp_path: Path) -> None:
    absent = replace(BENCHMARKS["nano-bench"], folder=tmp_path)
    with pytest.raises(AssertionError, match="files of nano-bench are those that it pins"):
        check_benchmark(absent)


def test_a_proxy_that_is_no_score_is_refused() -> None:
    with pytest.raises(LanguageError, match="a proxy is a Network"):
        check_proxy(ExpressionProxy("Nobody, 2020", "sum(all.weight)"))
    with pytest.raises(AssertionError, match="says where it comes from"):
        check_proxy(ExpressionProxy(" ", "sum(sum(all.weight))"))


def test_a_function_that_hides_what_it_reads_is_refused() -> None:
    @function_proxy("hidden", "Nobody, 2020", "tr(Θ)")
    def hidden(passes: SharedNetworkPasses) -> float:
        """Reads the kernel."""
        return float(passes.kernel.trace())

    network = SPACE.build(tiny(8, (1, 2.0)), classes=4, seed=1)
    with pytest.raises(AssertionError, match=r"hidden reads .*kernel.* but needs \[\]"):
        check_function_proxy(hidden, network, noise(4))


def test_an_evolution_strategy_with_a_generator_of_its_own_is_refused() -> None:
    rng = Random(0)

    def vary(population, toolbox, parameters, _):
        return [(None, toolbox.generate(rng)) for _ in range(parameters.children)]

    with pytest.raises(AssertionError, match="a seed fixes everything"):
        check_evolution_strategy(EvolutionStrategy(vary))


def test_a_search_strategy_that_scores_too_many_is_refused() -> None:
    def search(searcher, settings):
        searcher.score(searcher.samples(settings.samples + 1))

    strategy = SearchStrategy(search, random_search.RandomParameters)
    with pytest.raises(AssertionError, match="as many candidates as it says"):
        check_search_strategy(strategy, random_search.RandomParameters(samples=5))


def test_a_form_that_changes_is_refused() -> None:
    rng = Random(0)

    def changing(tree: Tree) -> str:
        """The tree and a number."""
        return f"{tree} {rng.random()}"

    with pytest.raises(AssertionError, match="a form is always the same"):
        check_exporter(changing)


def test_a_space_that_miscounts_is_refused() -> None:
    class Miscounting(type(SPACE)):
        def params(self, arch: Architecture, classes: int = 1000) -> int:
            return super().params(arch, classes) + 1

    space = Miscounting(SPACE.name, SPACE.description, SPACE.fields)
    with pytest.raises(AssertionError, match="parameters, not"):
        check_space(space)
