"""What a quantity must be, and what it needs."""

import pytest
import torch

from autoprox.language.quantities import QUANTITIES, Quantity, QuantityError


@pytest.mark.parametrize(
    ("name", "quantity", "rule"),
    [
        ("act", QUANTITIES["act"], "must be new"),
        ("other", QUANTITIES["act"], "the one it is registered by"),
        ("x", Quantity("x", "weight", ("bias",), torch.abs), "but got 'bias'"),  # type: ignore[arg-type]
        ("x", Quantity("x", "weight", (), torch.abs), "must read something"),
        ("x", Quantity("x", "weight", ("weight",), torch.abs, "x_y"), "but got 'x_y'"),
        ("X", Quantity("X", "weight", ("weight",), torch.abs), "a word of small letters"),
        ("1x", Quantity("1x", "weight", ("weight",), torch.abs), "a word of small letters"),
        ("é", Quantity("é", "weight", ("weight",), torch.abs), "a word of small letters"),
    ],
)
def test_a_quantity_that_breaks_a_rule_is_refused(name: str, quantity: Quantity, rule: str) -> None:
    with pytest.raises(QuantityError, match=rule):
        QUANTITIES.register(name, quantity)


def test_quantities_say_which_pass_they_need() -> None:
    needs = {name: QUANTITIES[name].needs for name in ("weight", "grad", "act", "act_grad")}
    assert needs == {"weight": "none", "grad": "backward", "act": "forward", "act_grad": "backward"}
