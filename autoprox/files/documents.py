"""Documents: what a JSON file must hold, as a model; errors name the line and the field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from autoprox.files.located_json import JSONFileError, Node

T = TypeVar("T")

Finite = Annotated[float, Field(allow_inf_nan=False)]

RULES: Mapping[str, str] = {
    "string_type": "must be a string",
    "string_too_long": "must be a shorter string",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "float_type": "must be a finite number",
    "finite_number": "must be a finite number",
}


class Document(BaseModel):
    """An object with these keys and no others, whose values are taken as they are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Excerpt(Document, extra="ignore"):
    """An object of a foreign file, which must have these keys and may have others."""


@dataclass(frozen=True)
class Must:
    """Says, in the annotation of a field, which rule every error of its value states."""

    rule: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="rule", custom_error_message=f"must be {self.rule}"
        )


def validate(node: Node, kind: type[T]) -> T:
    """The value as what it has to be; the error of the first rule that it breaks."""
    try:
        return TypeAdapter(kind).validate_python(node.plain())
    except ValidationError as error:
        broken = error.errors(include_url=False, include_input=False)
    unknown = [details for details in broken if details["type"] == "extra_forbidden"]
    raise _error(node, (unknown or broken)[0], kind)


def _error(node: Node, details: ErrorDetails, kind: Any) -> JSONFileError:
    place, name = details["loc"], details["type"]
    if name == "missing":
        return node.at(*place[:-1]).lacks(str(place[-1]))
    if name == "extra_forbidden":
        return node.at(*place).unknown(_keys(kind, place[:-1]))
    if name in ("greater_than_equal", "less_than_equal"):  # bounds are the same on both sides
        [bound] = details["ctx"].values()
        return node.at(*place).error(f"must be at most {abs(bound):g} in size")
    return _reached(node, place).error(RULES.get(name, details["msg"]))


def _reached(node: Node, place: Sequence[int | str]) -> Node:
    """The value at a place, or the last on the way to it: a wrong key's place isn't a value's."""
    for step in place:
        try:
            node = node.at(step)
        except (LookupError, TypeError):
            break
    return node


def _keys(kind: Any, place: Sequence[int | str]) -> tuple[str, ...]:
    """The keys of the model at a place of the document."""
    for step in place:
        fields = getattr(kind, "model_fields", {})
        kind = fields[step].annotation if step in fields else get_args(kind)[-1]
    return tuple(kind.model_fields)
