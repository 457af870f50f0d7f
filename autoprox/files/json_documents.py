"""JSON documents: parsed with the line of each value, and validated against models.

Errors name the file, the line and the field.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from autoprox.errors import AutoproxError, nearest

T = TypeVar("T")
Finite = Annotated[float, Field(allow_inf_nan=False)]

LARGEST_DOCUMENT = 2**23  # bytes; takes half a minute and a gigabyte
MAX_NESTING = 32
LONGEST_NUMBER = 40  # digits; CPython refuses to convert integers of thousands
WHITE_SPACE = re.compile(r"[ \t\r\n]*")

Value: TypeAlias = dict[str, "JSONNode"] | list["JSONNode"] | str | int | float | bool | None
Parent: TypeAlias = tuple[Any, int | str] | None  # that of the parent, and the key or index in it

RULES_BY_ERROR: Mapping[str, str] = {
    "string_type": "must be a string",
    "string_too_long": "must be a shorter string",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "float_type": "must be a finite number",
    "finite_number": "must be a finite number",
}


class JSONFileError(AutoproxError):
    """A JSON file that breaks a rule; the message starts with `file:line:`."""


@dataclass(frozen=True)
class JSONNode:
    """A value of a JSON file, with its line and its path."""

    value: Value
    text: str  # as an error quotes it: a number the way it was written
    file: str
    line: int
    parent: Parent  # as a chain: paths, each with all of a long key, would take gigabytes

    @property
    def path(self) -> str:
        """The keys and indices: "architectures[3].scores.cifar100"."""
        steps, parent = [], self.parent
        while parent is not None:
            parent, step = parent
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        return "".join(reversed(steps)).removeprefix(".")

    def error(self, rule: str, got: str | None = None) -> JSONFileError:
        """Return the error that this value breaks the rule."""
        return JSONFileError(f"{self.place} {rule}, but got {got or self.text}")

    @property
    def place(self) -> str:
        """The file, line and field, with which an error begins."""
        return f"{self.file}:{self.line}: {self.path or 'the file'}"

    def plain(self) -> Any:
        """Return the value as `json.load` does."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, *path: int | str) -> "JSONNode":
        """Return the value at these keys and indices."""
        node = self
        for step in path:
            node = node.value[step]  # type: ignore[index,assignment]
        return node

    def require_keys(self, keys: Iterable[str]) -> None:
        """Raise JSONFileError unless this object has these keys and no others."""
        known, found = tuple(keys), self.plain()
        for key in found:
            if key not in known:
                raise self.at(key).unknown(known)
        for key in known:
            if key not in found:
                raise self.lacks(key)

    def lacks(self, key: str) -> JSONFileError:
        """Return the error that this object must have a key."""
        return self.error(f"must have the key {key}", f"only {', '.join(self.plain()) or 'none'}")

    def unknown(self, known: Iterable[str]) -> JSONFileError:
        """Return the error that the key of this value is none of those known."""
        close = nearest(self.path.rpartition(".")[2], known)
        return JSONFileError(f"{self.file}:{self.line}: unknown key {self.path}{close}")


def read_json(path: Path) -> JSONNode:
    """Parse a UTF-8 JSON file; NaN and Infinity are numbers, for models to refuse."""
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "there is no such file"
        raise JSONFileError(f"{path} must be a JSON file, but {found}")
    if (size := path.stat().st_size) > LARGEST_DOCUMENT:
        raise JSONFileError(f"{path} must have at most {LARGEST_DOCUMENT} bytes, but has {size}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JSONFileError(f"{path} must be readable, but got: {error.strerror}") from error
    return parse_json(content, str(path))


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file holds, as `json.load` does."""
    document = read_json(path)
    if isinstance(content := document.plain(), dict):
        return content
    raise document.error("must be an object")


def parse_json(content: bytes, file: str) -> JSONNode:
    """Parse the content of a file, as `read_json` does; errors name the file."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JSONFileError(f"{file} must be UTF-8 text, but byte {error.start} is not") from error
    return _JSONParser(file, text).document()


class JSONDocument(BaseModel):
    """An object with these keys and no others; values aren't converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PartialJSONDocument(JSONDocument, extra="ignore"):
    """An object that must have these keys and may have others."""


@dataclass(frozen=True)
class FieldRule:
    """The rule, in a field's annotation, that every error of the field states."""

    rule: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="rule", custom_error_message=f"must be {self.rule}"
        )


def validate_json(node: JSONNode, kind: type[T]) -> T:
    """Return the value as an instance of the type; raise the error of the first broken rule."""
    try:
        return TypeAdapter(kind).validate_python(node.plain())
    except ValidationError as error:
        broken = error.errors(include_url=False, include_input=False)
    unknown = [details for details in broken if details["type"] == "extra_forbidden"]
    raise _error(node, (unknown or broken)[0], kind)


def _error(node: JSONNode, details: ErrorDetails, kind: Any) -> JSONFileError:
    path, name = details["loc"], details["type"]
    if name == "missing":
        return node.at(*path[:-1]).lacks(str(path[-1]))
    if name == "extra_forbidden":
        for step in path[:-1]:
            fields = getattr(kind, "model_fields", {})
            kind = fields[step].annotation if step in fields else get_args(kind)[-1]
        return node.at(*path).unknown(tuple(kind.model_fields))
    if name in ("greater_than_equal", "less_than_equal"):  # bounds are the same on both sides
        [bound] = details["ctx"].values()
        return node.at(*path).error(f"must be at most {abs(bound):g} in size")
    with suppress(LookupError, TypeError):  # the path of a wrong key ends at its object
        for step in path:
            node = node.at(step)
    return node.error(RULES_BY_ERROR.get(name, details["msg"]))


class _JSONParser:
    """Recursive descent over objects and arrays; the scalars are left to `json`."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.position = file, text, 0
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.decoder = json.JSONDecoder(parse_int=_integer)

    def document(self) -> JSONNode:
        node = self.value(None, 0)
        if self.peek():
            raise self.error("must end after its first value")
        return node

    def value(self, parent: Parent, depth: int) -> JSONNode:
        bracket = self.peek()
        begin = self.position
        value: Value
        if depth > MAX_NESTING:
            raise self.error(f"must nest at most {MAX_NESTING} deep")
        if bracket == "{":
            value, text = self.object(parent, depth), "an object"
        elif bracket == "[":
            value, text = self.array(parent, depth), "an array"
        else:
            value = self.scalar()
            text = self.text[begin : self.position]
            text = text if len(text) <= LONGEST_NUMBER else f"{text[: LONGEST_NUMBER - 3]}..."
        return JSONNode(value, text, self.file, self.line(begin), parent)

    def object(self, parent: Parent, depth: int) -> dict[str, JSONNode]:
        entries: dict[str, JSONNode] = {}
        for _ in self.separated("}"):
            if self.peek() not in ('"', ""):
                raise self.error("must have a key in double quotes here")
            begin = self.position
            key = self.scalar()
            if key in entries:
                self.position = begin
                raise self.error(f"must have the key {key} once: line {entries[key].line} has it")
            self.expect(":")
            entries[key] = self.value((parent, key), depth + 1)
        return entries

    def array(self, parent: Parent, depth: int) -> list[JSONNode]:
        return [self.value((parent, index), depth + 1) for index in self.separated("]")]

    def separated(self, close: str) -> Iterator[int]:
        """Count the entries up to the closing bracket; the caller reads one at each step."""
        self.position += 1
        if self.peek() == close:
            self.position += 1
            return
        for index in count():
            yield index
            if self.expect(f",{close}") == close:
                return

    def scalar(self) -> Any:
        try:
            value, self.position = self.decoder.raw_decode(self.text, self.position)
            return value
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated")
            self.position = len(self.text) if cut else error.pos
            raise self.error(f"must be complete JSON ({error.msg})") from error

    def expect(self, characters: str) -> str:
        found = self.peek()
        if not found or found not in characters:
            raise self.error(f"must have {' or '.join(map(repr, characters))} here")
        self.position += 1
        return found

    def peek(self) -> str:
        """The next character that isn't white space; nothing at the end."""
        match = WHITE_SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.text[self.position : self.position + 1]

    def line(self, position: int) -> int:
        return bisect_right(self.line_starts, position)

    def error(self, rule: str) -> JSONFileError:
        found = self.text[self.position : self.position + 1]
        got = repr(found) if found else "the end of the file"
        where = f"{self.file}:{self.line(self.position)}"
        return JSONFileError(f"{where}: the file {rule}, but got {got}")


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float(digits)
