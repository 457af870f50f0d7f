"""Options, each declared once: its type, default and rule, its help and its group.

A model of options is a pydantic model whose fields are annotated with an `Option`. The command
line, the Python functions, config.json and the documentation are all derived from it. Values are
checked strictly: a text is no list, 3.0 no whole number, True no number at all.

pydantic checks, and typer makes the commands (`cli.command`). cyclopts, tried beside it, reads such
models by itself, but hands them the texts of the command line, which strict fields refuse.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from inspect import Parameter, Signature
from numbers import Integral
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from autoprox.errors import ConfigError, nearest

FAR = 1_001
MOST = 10**6
END = 2**63  # JSON readers, numpy and torch all take whole numbers below


@dataclass(frozen=True)
class Option:
    """What is said of an option beside its type, its constraints and its default."""

    help: str
    group: str = "Options"
    metavar: str | None = None
    default: str | None = None  # in words, where the value doesn't say what it means
    read: Callable[[str], Any] | None = None  # how its text on the command line becomes a value
    argument: bool = False  # given by its place, without its name
    repeated: bool = False  # given once for each entry of a list
    resource: bool = False  # what a resumed run may have otherwise: results don't depend on it
    code: bool = False  # names a function, which a resumed run calls only if it is given again
    stored: bool = True  # a part of config.json
    listed: bool = True  # on the command line


def _whole(value: Any) -> Any:
    """numpy's whole numbers are whole numbers too."""
    return value if isinstance(value, bool) or not isinstance(value, Integral) else int(value)


def _path(value: str | os.PathLike[str]) -> str:
    """A path as a text, which names something, as no system lets a null character do."""
    if not (text := os.fspath(value)) or "\0" in text:
        raise ValueError(value)
    return text


Whole = Annotated[int, BeforeValidator(_whole), Ge(0), Lt(END)]
Many = Annotated[int, BeforeValidator(_whole), Ge(1), Le(MOST)]  # of what is kept in memory
Positive = Annotated[int, BeforeValidator(_whole), Ge(1), Lt(END)]
Probability = Annotated[float, Gt(0), Le(1)]
Coefficient = Annotated[float, Ge(0), Le(10)]
PathText = Annotated[str | os.PathLike[str], AfterValidator(_path)]
Names = Annotated[Sequence[str], AfterValidator(tuple)]
Numbers = Annotated[Sequence[float], AfterValidator(tuple)]
Paths = Annotated[Sequence[PathText], AfterValidator(tuple)]
SIGNS = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}
METAVARS = {int: "<int>", float: "<float>"}
NOUNS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


class Options(BaseModel):
    """A frozen set of options; one that breaks a rule is a ConfigError of one line."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)
    noun: ClassVar[str] = "the options"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(self._told(error)) from None

    @classmethod
    def described(cls) -> Iterator[tuple[str, FieldInfo, Option]]:
        """Each field of which something is said, with that."""
        for name, field in cls.model_fields.items():
            for said in field.metadata:
                if isinstance(said, Option):
                    yield name, field, said

    @classmethod
    def named(cls, **wanted: bool) -> tuple[str, ...]:
        """The names of the options of which all this is so: `named(resource=True)`."""
        return tuple(
            name
            for name, _, option in cls.described()
            if all(getattr(option, key) is value for key, value in wanted.items())
        )

    @classmethod
    def paths(cls) -> tuple[str, ...]:
        """The names of the options that are paths, or may be."""
        return tuple(n for n, field, _ in cls.described() if "PathLike" in str(field.annotation))

    @classmethod
    def signature(cls) -> Signature:
        """That of a function with these options as keywords, for people to read."""
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.is_required() else field.default,
                    annotation=_bare(field.annotation),
                )
                for name, field, _ in cls.described()
            ]
        )

    @classmethod
    def explained(cls) -> str:
        """A line for each option, with its help."""
        return "\n".join(f"{name}: {option.help}" for name, _, option in cls.described())

    @classmethod
    def _told(cls, error: ValidationError) -> str:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # a name that is no text, such as half a character
            return f"{cls.noun} needs options by their names, but {first['msg']}"
        name, value = str(first["loc"][0]), first["input"]
        if first["type"] == "extra_forbidden":
            known = cls.named(listed=True) or tuple(cls.model_fields)
            return f"unknown option {name!r}{nearest(name, known)}"
        if first["type"] == "missing":
            return f"{cls.noun} needs {name}, but got none"
        return f"{name} must be {rule_of(cls.model_fields[name], value)}, but got {value!r}"


def read_assignments(texts: Sequence[str]) -> dict[str, str]:
    """Read texts of the form NAME=VALUE, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ConfigError(f"set must be NAME=VALUE, for example samples=100, but got {text!r}")
        if name in found:
            raise ConfigError(f"{name} must be set once, but got {found[name]} and {value}")
        found[name] = value
    return found


def read_set(
    owner: str, fields: Mapping[str, FieldInfo], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the values that options of `owner` are set to, by name; some may be texts."""
    for name in given:
        if name not in fields:
            known = nearest(name, sorted(fields)) if fields else ", which has no options of its own"
            raise ConfigError(f"unknown option {name!r} of {owner}{known}")
    return {name: read_value(fields[name], value) for name, value in given.items()}


def read_value(field: FieldInfo, value: Any) -> Any:
    """Read a text as JSON if the field isn't one of texts; other values are taken as they are."""
    if not isinstance(value, str) or plain_type(field)[0] is str:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value  # which the field's model refuses, unless it takes texts too


def rule_of(field: FieldInfo, value: Any = None) -> str:
    """What a value must be, by the field's type and constraints: a whole number >= 1.

    Limits that nobody comes near are only said of a value beyond them, all but END in general.
    """
    kind, constraints = plain_type(field)
    if get_origin(kind) is Mapping:
        return "a mapping of names to values"
    if get_origin(kind) is Sequence:
        return f"a list of {'numbers' if get_args(kind)[0] is float else 'texts'}"
    words = [
        "a text or a path" if "PathLike" in str(field.annotation) else NOUNS.get(kind, str(kind))
    ]
    for signs, tightest in (((Ge, Gt), max), ((Le, Lt), min)):
        bounds = [(_bound(c), type(c)) for c in constraints if isinstance(c, signs)]
        bounds = [pair for pair in bounds if _is_said(pair[0], value)]
        if bounds:
            bound, sign = tightest(bounds, key=lambda pair: pair[0])
            words.append(f"{SIGNS[sign]} {'2**63' if bound == END else f'{bound:.7g}'}")
    return " and ".join(words).replace(" and ", " ", 1)


def _is_said(bound: float, value: Any) -> bool:
    if bound < FAR:
        return True
    return bound != END if value is None else isinstance(value, int) and value >= bound


def plain_type(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The type of a field without None, and its constraints."""
    kind, constraints = field.annotation, [*field.metadata]
    while get_origin(kind) in (Annotated, Union, UnionType):
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            constraints += more
        else:
            kind = next(part for part in get_args(kind) if part is not NoneType)
    return kind, constraints


def described_together(
    models: Mapping[str, type[Options]], group: str
) -> Iterator[tuple[str, FieldInfo, Option]]:
    """Yield the options of several models by name, each once, for the command line.

    One that several models have is in the `group`; the others are in a group with the name of their
    model. The default in words is that of each model. The value is None unless it is given.
    """
    found: dict[str, dict[str, tuple[FieldInfo, Option]]] = {}
    for owner, model in models.items():
        for name, field, option in model.described():
            found.setdefault(name, {})[owner] = field, option
    for name, own in sorted(found.items(), key=lambda item: len(item[1]) == 1):
        yield name, *_together(own, group)


def _together(own: Mapping[str, tuple[FieldInfo, Option]], group: str) -> tuple[FieldInfo, Option]:
    """Return one option for those of the same name; the model that is chosen reads its text."""
    first, option = next(iter(own.values()))
    helps: dict[str, list[str]] = {}
    for owner, (_, other) in own.items():
        helps.setdefault(other.help, []).append(owner)
    field = copy(first)
    field.annotation, field.default = _or_none(first.annotation), None
    said = Option(
        " ".join(f"{', '.join(owners)}: {text}" for text, owners in helps.items())
        if len(helps) > 1
        else option.help,
        group if len(own) > 1 else next(iter(own)),
        option.metavar or METAVARS.get(plain_type(first)[0]),
        ", ".join(f"{owner} {other.default}" for owner, (other, _) in own.items()),
        read=str,
        stored=False,
    )
    return field, said


def _or_none(annotation: Any) -> Any:
    return annotation | None


def _bare(annotation: Any) -> Any:
    """A type without constraints."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_bare, get_args(annotation)))
    if get_origin(annotation) is Sequence:
        return Sequence[_bare(get_args(annotation)[0])]  # type: ignore[misc]
    return annotation


def _bound(constraint: Any) -> Any:
    return getattr(constraint, type(constraint).__name__.lower())
