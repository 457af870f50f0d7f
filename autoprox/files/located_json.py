"""JSON from a file that a user wrote, with the line and the field of whatever is wrong in it."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from autoprox.errors import AutoproxError, nearest

MAX_BYTES = 2**23  # takes half a minute and a gigabyte
MAX_DEPTH = 32
MAX_DIGITS = 40  # CPython refuses to convert integers of thousands of digits; none is of use here
WHITE_SPACE = re.compile(r"[ \t\r\n]*")

Value: TypeAlias = dict[str, "Node"] | list["Node"] | str | int | float | bool | None
Place: TypeAlias = tuple[Any, int | str] | None  # the place of what it is in, and the step from it


class JSONFileError(AutoproxError):
    """A JSON file that breaks a rule; the message starts with `file:line:`."""


@dataclass(frozen=True)
class Node:
    """One value of the file; `documents` says what it has to be."""

    value: Value
    text: str  # as an error quotes it: a number the way it was written
    file: str
    line: int
    where: Place  # as a chain: paths, each with all of a long key, would take gigabytes

    @property
    def path(self) -> str:
        """The way to the value: "architectures[3].scores.cifar100"."""
        steps, where = [], self.where
        while where is not None:
            where, step = where
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        return "".join(reversed(steps)).removeprefix(".")

    def error(self, rule: str, got: str | None = None) -> JSONFileError:
        """The error that this value breaks the rule."""
        return JSONFileError(f"{self.place} {rule}, but got {got or self.text}")

    @property
    def place(self) -> str:
        """The file, line and field, as an error begins."""
        return f"{self.file}:{self.line}: {self.path or 'the file'}"

    def plain(self) -> Any:
        """The value as `json.load` returns it."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, *path: int | str) -> "Node":
        """The value within this one that is reached by these keys and indices."""
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
        """The error that this object must have a key."""
        return self.error(f"must have the key {key}", f"only {', '.join(self.plain()) or 'none'}")

    def unknown(self, known: Iterable[str]) -> JSONFileError:
        """The error that the key of this value is none of those known."""
        close = nearest(self.path.rpartition(".")[2], known)
        return JSONFileError(f"{self.file}:{self.line}: unknown key {self.path}{close}")


def read_json(path: Path) -> Node:
    """Parse a UTF-8 JSON file; NaN and Infinity are numbers, for models to refuse."""
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "there is no such file"
        raise JSONFileError(f"{path} must be a JSON file, but {found}")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise JSONFileError(f"{path} must have at most {MAX_BYTES} bytes, but has {size}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JSONFileError(f"{path} must be readable, but got: {error.strerror}") from error
    return parse_json(content, str(path))


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds, as `json.load` returns it."""
    document = read_json(path)
    if not isinstance(document.value, dict):
        raise document.error("must be an object")
    return {key: node.plain() for key, node in document.value.items()}


def parse_json(content: bytes, file: str) -> Node:
    """Parse the content of a file that is named so in errors, as `read_json` does."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JSONFileError(f"{file} must be UTF-8 text, but byte {error.start} is not") from error
    return _JSONParser(file, text).document()


class _JSONParser:
    """Recursive descent over objects and arrays; the scalars are left to `json`."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.position = file, text, 0
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.decoder = json.JSONDecoder(parse_int=_integer)

    def document(self) -> Node:
        node = self.value(None, 0)
        if self.peek():
            raise self.error("must end after its first value")
        return node

    def value(self, where: Place, depth: int) -> Node:
        bracket = self.peek()
        begin = self.position
        value: Value
        if depth > MAX_DEPTH:
            raise self.error(f"must nest at most {MAX_DEPTH} deep")
        if bracket == "{":
            value, text = self.object(where, depth), "an object"
        elif bracket == "[":
            value, text = self.array(where, depth), "an array"
        else:
            value = self.scalar()
            text = self.text[begin : self.position]
            text = text if len(text) <= MAX_DIGITS else f"{text[: MAX_DIGITS - 3]}..."
        return Node(value, text, self.file, self.line(begin), where)

    def object(self, where: Place, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for _ in self.separated("}"):
            if self.peek() not in ('"', ""):
                raise self.error("must have a key in double quotes here")
            begin = self.position
            key = self.scalar()
            if key in entries:
                self.position = begin
                raise self.error(f"must have the key {key} once: line {entries[key].line} has it")
            self.expect(":")
            entries[key] = self.value((where, key), depth + 1)
        return entries

    def array(self, where: Place, depth: int) -> list[Node]:
        return [self.value((where, index), depth + 1) for index in self.separated("]")]

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
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)
