"""Documents: each rule that a model can state, with the line and the field where it is broken."""

import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from autoprox.files.json_documents import (
    FieldRule,
    JSONDocument,
    JSONFileError,
    PartialJSONDocument,
    parse_json,
    validate_json,
)


class Inner(JSONDocument):
    count: Annotated[int, Field(ge=0, le=9), FieldRule("a digit")] = 3
    share: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = None


class Outer(JSONDocument):
    name: str
    flag: bool
    inner: list[Inner]
    by_name: dict[str, Inner]


class Part(PartialJSONDocument):
    name: str


GOOD: dict[str, Any] = {
    "name": "a",
    "flag": True,
    "inner": [{}, {"count": 2, "share": 1}],
    "by_name": {"b": {"share": None}},
}


def parsed(document: Any, kind: Any = Outer) -> Any:
    return validate_json(parse_json(json.dumps(document, indent=1).encode(), "file.json"), kind)


def test_what_is_right_is_taken_as_it_is() -> None:
    found = parsed(GOOD)
    assert [(inner.count, inner.share) for inner in found.inner] == [(3, None), (2, 1.0)]
    assert (found.name, found.flag, found.by_name["b"].count) == ("a", True, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "file.json:2: name must be a string, but got 3"),
        ({"flag": 1}, "file.json:3: flag must be true or false, but got 1"),
        ({"flag": "true"}, 'file.json:3: flag must be true or false, but got "true"'),
        ({"inner": {}}, "file.json:4: inner must be an array, but got an object"),
        ({"inner": [{}, 3]}, "file.json:6: inner[1] must be an object, but got 3"),
        ({"inner": [{"count": 10}]}, "file.json:6: inner[0].count must be a digit, but got 10"),
        ({"inner": [{"count": 1.0}]}, "file.json:6: inner[0].count must be a digit, but got 1.0"),
        ({"inner": [{"count": True}]}, "file.json:6: inner[0].count must be a digit, but got true"),
        ({"by_name": []}, "by_name must be an object, but got an array"),
        ({"by_name": {"b": {"share": 2}}}, "by_name.b.share must be at most 1 in size, but got 2"),
        (
            {"by_name": {"b": {"share": -2}}},
            "by_name.b.share must be at most 1 in size, but got -2",
        ),
        (
            {"by_name": {"b": {"share": float("nan")}}},
            "by_name.b.share must be a finite number, but got NaN",
        ),
        (
            {"by_name": {"b": {"share": True}}},
            "by_name.b.share must be a finite number, but got true",
        ),
        (
            {"inner": [{"cuont": 1}]},
            "file.json:6: unknown key inner[0].cuont (did you mean count?); "
            "choose from count, share",
        ),
        ({"by_name": {"b": {"x": 1}}}, "unknown key by_name.b.x; choose from count, share"),
        ({"nam": 1}, "unknown key nam (did you mean name?); choose from name, flag, inner"),
    ],
)
def test_a_broken_rule_is_located(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JSONFileError) as caught:
        parsed(GOOD | changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named_with_its_object() -> None:
    with pytest.raises(
        JSONFileError, match=r"^file\.json:1: the file must have the key name, but "
    ):
        parsed({})
    with pytest.raises(JSONFileError, match=r"\[1\] must have the key name, but got only x$"):
        parsed([{"name": "a", "x": 1}, {"x": 1}], list[Part])


def test_an_unknown_key_is_told_before_the_missing_one_it_stands_for() -> None:
    renamed = {"nane" if name == "name" else name: value for name, value in GOOD.items()}
    with pytest.raises(JSONFileError, match=r"unknown key nane \(did you mean name\?\)"):
        parsed(renamed)


def test_a_number_too_large_for_a_float_is_not_finite() -> None:
    text = json.dumps(GOOD | {"inner": [{"share": 10**9}]}).replace("1000000000", "1" + "0" * 400)
    with pytest.raises(JSONFileError, match=r"share must be a finite number, but got 1000+\.\.\."):
        validate_json(parse_json(text.encode(), "file.json"), Outer)
