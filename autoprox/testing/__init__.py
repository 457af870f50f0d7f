"""Conformance suites: what must hold for everything registered, for the authors of plug-ins too.

They import the packages whose registries they test, and nothing imports them. Each `check_...` is
a plain function that raises AssertionError with the rule that is broken; no pytest is needed.
"""

from autoprox.testing.benchmark_checks import check_benchmark
from autoprox.testing.expression_checks import (
    check_exporter,
    check_function_proxy,
    check_operation,
    check_proxy,
    check_statistic,
)
from autoprox.testing.space_checks import check_space
from autoprox.testing.strategy_checks import check_evolution_strategy, check_search_strategy

__all__ = [
    "check_benchmark",
    "check_evolution_strategy",
    "check_exporter",
    "check_function_proxy",
    "check_operation",
    "check_proxy",
    "check_search_strategy",
    "check_space",
    "check_statistic",
]
