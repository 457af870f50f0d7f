"""Plain YAML: a mapping of names to numbers, words, lists of these, or mappings of these.

That is what files of results are; tags, anchors, quotes and several documents are refused. The
result has the lines of its values, like that of a JSON file.
"""

import math
import re

from autoprox.files.json_documents import JSONFileError, JSONNode, Parent, Value

INTEGER = re.compile(r"[-+]?\d{1,18}")
NUMBER = re.compile(r"[-+]?(\d{1,40}\.\d{0,40}|\.\d{1,40}|\d{1,40})([eE][-+]?\d{1,4})?")
WORD = re.compile(r"[A-Za-z0-9_./][\w./ -]{0,200}")
KEY = re.compile(r"(?P<key>[A-Za-z_]\w{0,100}):(?: +(?P<value>\S.*))?")
CONSTANTS = {"true": True, "false": False, "null": None, "~": None, ".nan": math.nan}
CONSTANTS |= {sign + ".inf": float(f"{sign}inf") for sign in ("", "+", "-")}


def parse_plain_yaml(content: bytes, file: str) -> JSONNode:
    """Parse the content of a file; errors name the file and the line."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JSONFileError(f"{file} must be UTF-8 text, but byte {error.start} is not") from error
    entries: dict[str, JSONNode] = {}
    inner: dict[str, JSONNode] | list[JSONNode] | None = None  # of the last key, if it has no value
    last = ""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.rstrip(" \r")
        if not stripped:
            continue
        if stripped.startswith("- ") and last and not isinstance(inner, dict):
            inner = [] if inner is None else inner
            parent: Parent = ((None, last), len(inner))
            inner.append(_scalar(stripped[2:].strip(), file, number, parent))
        elif (found := KEY.fullmatch(stripped.removeprefix("  "))) is None:
            raise _error(file, number, stripped)
        elif stripped.startswith("  "):
            if not last or isinstance(inner, list):
                raise _error(file, number, stripped)
            inner = {} if inner is None else inner
            _add(inner, found, file, number, (None, last))
        else:
            _add(entries, found, file, number, None)
            inner, last = None, found["key"] if found["value"] is None else ""
            continue
        entries[last] = JSONNode(
            inner, "a list" if isinstance(inner, list) else "a mapping", file,
            entries[last].line, (None, last),
        )  # fmt: skip
    return JSONNode(entries, "a mapping", file, 1, None)


def _add(
    entries: dict[str, JSONNode], found: re.Match[str], file: str, line: int, parent: Parent
) -> None:
    key, value = found["key"], found["value"]
    if key in entries:
        raise JSONFileError(f"{file}:{line}: the file must have the key {key} once")
    entries[key] = _scalar("null" if value is None else value, file, line, (parent, key))


def _scalar(text: str, file: str, line: int, parent: Parent) -> JSONNode:
    value: Value
    if text.lower() in CONSTANTS:
        value = CONSTANTS[text.lower()]
    elif INTEGER.fullmatch(text):
        value = int(text)
    elif NUMBER.fullmatch(text):
        value = float(text)
    elif WORD.fullmatch(text):
        value = text
    else:
        raise _error(file, line, text)
    return JSONNode(value, text, file, line, parent)


def _error(file: str, line: int, got: str) -> JSONFileError:
    rule = f"{file}:{line}: the file must be plain YAML, of `name: value` and `- value`"
    return JSONFileError(f"{rule}, but got {got[:40]!r}")
