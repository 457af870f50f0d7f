"""Registries: names, rules, trials, and views that follow them."""

import pytest

from autoprox.errors import AutoproxError
from autoprox.registry import Registry, View


def even(name: str, number: int) -> None:
    if number % 2:
        raise AutoproxError(f"a number is even, but {name} is {number}")


def numbers() -> Registry[int]:
    registry: Registry[int] = Registry("test_numbers", "number", AutoproxError, even)
    registry.register("two", 2)
    registry.register("six", 6)
    return registry


def test_items_are_found_in_their_order_and_unknown_ones_refused() -> None:
    registry = numbers()
    assert dict(registry) == {"two": 2, "six": 6}
    assert list(registry) == ["two", "six"]
    message = r"unknown number 'tow' \(did you mean two\?\); choose from two, six"
    with pytest.raises(AutoproxError, match=message):
        registry.find("tow")


def test_a_name_is_new_and_an_item_keeps_the_rule() -> None:
    registry = numbers()
    with pytest.raises(AutoproxError, match="name of a new number must be new, but got 'two'"):
        registry.register("two", 4)
    with pytest.raises(AutoproxError, match="a number is even, but three is 3"):
        registry.register("three", 3)
    assert list(registry) == ["two", "six"]


def test_an_item_on_trial_is_there_for_a_while() -> None:
    registry = numbers()
    with registry.trial("two", 22) as item:
        assert item == registry["two"] == 22
    assert dict(registry) == {"two": 2, "six": 6}
    with pytest.raises(AutoproxError), registry.trial("three", 3):
        pass
    assert dict(registry) == {"two": 2, "six": 6}


def test_views_follow_the_registry() -> None:
    registry = numbers()
    doubled = View(registry, lambda: {name: 2 * number for name, number in registry.items()})
    assert (dict(doubled), "ten" in doubled) == ({"two": 4, "six": 12}, False)
    registry.register("ten", 10)
    assert dict(doubled) == {"two": 4, "six": 12, "ten": 20}
    with registry.trial("two", 22):
        assert (len(doubled), doubled["two"]) == (3, 44)
    assert doubled["two"] == 4
