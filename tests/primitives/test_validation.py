"""What registration refuses, and that what it accepts is a word of the language at once."""

from dataclasses import replace

import pytest
import torch

from autoprox.export import latex
from autoprox.language import LanguageError, ValueType, parse_expression
from autoprox.language.grammar import Grammar
from autoprox.primitives import (
    OPERATIONS,
    PRIMITIVES,
    PrimitiveError,
    operation,
    register_operation,
)


def raises(x):
    """Raises."""
    raise ValueError("no")


def undocumented(x):
    return x.abs()


def misshapen(x):
    """Drops a column."""
    return x[..., 1:]


def wrong_type(x):
    """Halves the precision."""
    return x.half()


def infinite(x):
    """Has no guard against 0."""
    return 1 / x


def overflowing(x):
    """Has no guard against large values."""
    return x.exp()


def not_a_number(x):
    """Has no guard against negative values."""
    return x.sqrt()


def in_place(x):
    """Modifies its argument."""
    return x.abs_()


def random(x):
    """Differs from call to call."""
    return x + torch.rand(())


def mixing(x):
    """Depends on the other values of the batch."""
    return x - x.mean()


def forgets_out(x, out=None):
    """Computes something else where it is given a place for it."""
    return x + 1 if out is None else out.add_(2)


def constant(x):
    """Zero, on layers alone."""
    return x * 0 if x.dim() == 2 else x.sin()


def same(x):
    """x, by adding zero."""
    return x + 0


def twin(x):
    """The square, by another way."""
    return x * x.abs() * x.sign()


def sine(x):
    """The sine, which has no flag."""
    return x.sin()


@pytest.mark.parametrize(
    ("function", "fields", "message"),
    [
        (raises, {}, "accepts every finite value, but not `raises` on zeros .*: no"),
        (undocumented, {}, "rule in a docstring, but `undocumented` has none"),
        (
            misshapen,
            {},
            r"right shape and type, here \(2, 3, 4\) of torch.float64, but not `misshapen`",
        ),
        (wrong_type, {}, "right shape and type, .* but not `wrong_type`"),
        (infinite, {}, "is finite on finite values, but not `infinite` on zeros"),
        (overflowing, {}, "is finite on finite values, but not `overflowing` on huge values"),
        (not_a_number, {}, "is finite on finite values, but not `not_a_number` on negatives"),
        (in_place, {}, "leaves its arguments as they are, but not `in_place` on negatives"),
        (random, {}, "is deterministic, but not `random`"),
        (mixing, {}, "each value of a batch on its own, but not `mixing` on negatives"),
        (forgets_out, {}, "writes the same over one of its values, but not `forgets_out`"),
        (constant, {}, "depends on its values, but not `constant` on layers"),
        (same, {}, "changes its values, but not `same` on matrix"),
        (twin, {}, "differs from all others, but `twin` on matrix is `square`$"),
        (sine, {"even": True}, "flagged `even` is so bit for bit, but not `sine`"),
        (sine, {"mirrored": True}, "flagged `mirrored` is so"),
        (sine, {"nonnegative": True}, "flagged `nonnegative` is so"),
        (sine, {"idempotent": True}, "flagged `idempotent` is so"),
        (sine, {"keeps_nonnegative": True}, "flagged `keeps_nonnegative` is so"),
        (sine, {"of_magnitude": torch.sin}, r"its `of_magnitude` of \|x\| .* on negatives"),
        (sine, {"levels": ("network",)}, "kind map has the levels matrix, layers, but `sine` has"),
        (sine, {"latex": r"\sin"}, r"places \['x'\], but `sine` has \[\]"),
    ],
)
def test_registration_refuses(function, fields, message):
    with pytest.raises(PrimitiveError, match=message):
        register_operation("map", **fields)(function)
    assert function.__name__ not in PRIMITIVES


def test_registration_refuses_a_binary_operation_that_does_not_commute():
    def less(x, y):
        """x - y."""
        return x - y

    for flag in ("commutative", "right_identity", "keeps_nonnegative"):
        with pytest.raises(PrimitiveError, match=rf"flagged `{flag}`.*`less` on "):
            register_operation("binary", latex="<x> - <y>", **{flag: True})(less)


def test_registration_refuses_a_name_twice():
    with pytest.raises(PrimitiveError, match="name of a new operation must be new, but got 'abs'"):
        register_operation("map")(PRIMITIVES["abs"].function)


def test_registration_refuses_what_is_no_record_of_the_name():
    for other in (sine, PRIMITIVES["abs"]):
        with pytest.raises(PrimitiveError, match="is a record of its name, but sine is"):
            OPERATIONS.register("sine", other)


def test_reductions_and_pairs_are_compared_among_themselves():
    def mass(x, dims):
        """The sum of |x|."""
        return x.abs().double().sum(dims)

    def agreement(x, y, dims):
        """The sum of products."""
        return (x.double() * y).sum(dims)

    with pytest.raises(PrimitiveError, match="`mass` on matrix is `l1_norm`"):
        register_operation("reduce")(mass)
    with pytest.raises(PrimitiveError, match="`agreement` on layers is `dot`"):
        register_operation("pair", levels=("layers",))(agreement)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nuclear_norm", "`nuclear_norm` on layers is `frobenius_norm`"),
        ("effective_rank", "depends on its values, but not `effective_rank` on layers"),
    ],
)
def test_layers_can_not_have_the_words_back_that_were_refused_them(name, message):
    everywhere = replace(PRIMITIVES[name], levels=("matrix", "layers"), formerly=())
    with pytest.raises(PrimitiveError, match=message), OPERATIONS.trial(name, everywhere):
        pass


def test_a_registered_operation_is_a_word_at_once():
    made = operation("map")(sine)
    assert (made.function, made.kind, made.arity) == (sine, "map", 1)
    assert made.rule == "The sine, which has no flag."
    assert made.latex == r"\operatorname{sine}\left(<x>\right)"
    with OPERATIONS.trial("sine", made):
        assert PRIMITIVES["sine"] is made
        assert latex(parse_expression("sum(sine(width))")).count("sine") == 1
        assert "sine" in Grammar().maps(ValueType("Layers", "block"))
    with pytest.raises(LanguageError, match="unknown name `sine`"):
        parse_expression("sum(sine(width))")
