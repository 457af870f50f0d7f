"""Statistics belong to the text of the code that they are of: what is edited is measured again."""

import copy
from collections.abc import Callable
from types import ModuleType

import torch
from helpers.measuring import Conditions
from helpers.networks import SPACE

from autoprox.files.function_import_and_digest import code_digest
from autoprox.language import EVERY_STATISTIC
from autoprox.language.quantities import QUANTITIES, Quantity
from autoprox.searchspaces import Architecture

QUANTITY = "def twice(w): return 2 * w\n"
BASE = f"from {type(SPACE).__module__} import {type(SPACE).__name__} as Space\n"
OWN = "from base import Own\nclass Derived(Own): ...\n"

Written = Callable[[str, str], ModuleType]
MakeSetting = Callable[..., Conditions]


def test_what_is_compiled_has_no_text() -> None:
    assert code_digest(torch.add, len, int) == code_digest()


def test_a_quantity_that_is_written_otherwise_is_another(
    written: Written, setting: MakeSetting, architectures: list[Architecture]
) -> None:
    def key(text: str) -> str:
        quantity = Quantity("twice", "weight", ("weight",), written("own", text).twice)
        with QUANTITIES.trial("twice", quantity):
            return setting().key(architectures[0], "many", EVERY_STATISTIC["msa.twice"])

    assert key(QUANTITY) == key(QUANTITY)
    assert key(QUANTITY) != key("def twice(w): return w + w\n")


def test_a_space_whose_base_is_written_otherwise_has_other_networks(
    written: Written, setting: MakeSetting, architectures: list[Architecture]
) -> None:
    def key(text: str) -> str:
        written("base", f"{BASE}{text}")
        space = copy.copy(SPACE)
        space.__class__ = written("own", OWN).Derived
        return setting(space=space).key(architectures[0], "many", EVERY_STATISTIC["msa.weight"])

    first = "class Own(Space): ...\n"
    assert key(first) == key(first)
    assert key(first) != key("class Own(Space):\n    input_shape = 3, 8, 8\n")
