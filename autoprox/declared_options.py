"""Options, each declared once: its type, default and rule, its help and its group.

A model of options is a pydantic model whose fields are annotated with an `Option`. The command
line, the Python functions, config.json and the documentation are all derived from it. Values are
checked strictly: a text is not a list, 3.0 not a whole number, True not a number. pydantic checks
them, and typer makes the commands (`cli.command_factory`).
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
END = 2**63  # JSON readers, numpy and torch all take whole numbers below it


GENERAL = "Options"  # the group of --help itself


@dataclass(frozen=True)
class Option:
    """The description of an option that its type, constraints and default don't give."""

    help: str
    metavar: str | None = None
    default: str | None = None  # in words, if the value doesn't say what it means
    read: Callable[[str], Any] | None = None  # turns the text on the command line into a value
    group: str = "Problem"  # of the help
    choices: tuple[str, ...] = ()  # what a shell completes; a plug-in may add others
    argument: bool = False  # given by its position instead of by name
    repeated: bool = False  # given once for each entry of a list
    resource: bool = False  # may change when a run is resumed: results don't depend on it
    code: bool = False  # names a function, which a resumed run calls only if it is given again
    stored: bool = True  # in config.json
    listed: bool = True  # on the command line
    short: str | None = None  # one letter for it there: -k


def _whole(value: Any) -> Any:
    """Turn whole numbers of numpy into ints."""
    return value if isinstance(value, bool) or not isinstance(value, Integral) else int(value)


def _path(value: str | os.PathLike[str]) -> str:
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
            raise ConfigError(self._message(error)) from None

    @classmethod
    def described(cls) -> Iterator[tuple[str, FieldInfo, Option]]:
        """Yield each field that has an `Option`, with it."""
        for name, field in cls.model_fields.items():
            for option in field.metadata:
                if isinstance(option, Option):
                    yield name, field, option

    @classmethod
    def named(cls, **wanted: bool) -> tuple[str, ...]:
        """Return the names of the options with these properties: `named(resource=True)`."""
        return tuple(
            name
            for name, _, option in cls.described()
            if all(getattr(option, key) is value for key, value in wanted.items())
        )

    @classmethod
    def paths(cls) -> tuple[str, ...]:
        """Return the names of the options that may be paths."""
        return tuple(n for n, field, _ in cls.described() if "PathLike" in str(field.annotation))

    @classmethod
    def signature(cls) -> Signature:
        """Return the readable signature of a function with these options as keywords."""
        parameters = []
        for name, field, _ in cls.described():
            default = Parameter.empty if field.is_required() else field.default
            kind = _without_constraints(field.annotation)
            parameters.append(
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            )
        return Signature(parameters)

    @classmethod
    def option_lines(cls) -> str:
        """Return a line for each option, with its help."""
        return "\n".join(f"{name}: {option.help}" for name, _, option in cls.described())

    @classmethod
    def _message(cls, error: ValidationError) -> str:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # a name that isn't text, such as a lone surrogate
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
    """Read a text as JSON unless the field takes texts; return other values unchanged."""
    if not isinstance(value, str) or plain_type(field)[0] is str:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value  # the field's model checks it


def rule_of(field: FieldInfo, value: Any = None) -> str:
    """Return what a value must be by the field's type and constraints: a whole number >= 1.

    Very large limits are only mentioned if the value exceeds them; without a value, all but END.
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
        bounds = [
            (getattr(c, type(c).__name__.lower()), type(c))
            for c in constraints
            if isinstance(c, signs)
        ]
        bounds = [pair for pair in bounds if _is_mentioned(pair[0], value)]
        if bounds:
            bound, sign = tightest(bounds, key=lambda pair: pair[0])
            words.append(f"{SIGNS[sign]} {'2**63' if bound == END else f'{bound:.7g}'}")
    return " and ".join(words).replace(" and ", " ", 1)


def _is_mentioned(bound: float, value: Any) -> bool:
    if bound < FAR:
        return True
    return bound != END if value is None else isinstance(value, int) and value >= bound


def plain_type(field: FieldInfo) -> tuple[Any, list[Any]]:
    """Return the type of a field without None, and its constraints."""
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

    Options that several models share are in `group`, the others in a group with the name of their
    model. The default in words lists that of each model; the value is None unless it is given, and
    the model that is chosen reads its text.
    """
    found: dict[str, dict[str, tuple[FieldInfo, Option]]] = {}
    for owner, model in models.items():
        for name, field, option in model.described():
            found.setdefault(name, {})[owner] = field, option
    for name, own in sorted(found.items(), key=lambda item: len(item[1]) == 1):
        first, option = next(iter(own.values()))
        helps: dict[str, list[str]] = {}
        for owner, (_, other) in own.items():
            helps.setdefault(other.help, []).append(owner)
        each = " ".join(f"{', '.join(owners)}: {text}" for text, owners in helps.items())
        field = copy(first)
        field.annotation, field.default = _or_none(first.annotation), None
        yield (
            name,
            field,
            Option(
                each if len(helps) > 1 else option.help,
                option.metavar or METAVARS.get(plain_type(first)[0]),
                ", ".join(f"{owner} {other.default}" for owner, (other, _) in own.items()),
                read=str,
                group=group if len(own) > 1 else next(iter(own)),
                stored=False,
            ),
        )


def _or_none(annotation: Any) -> Any:
    return annotation | None


def _without_constraints(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _without_constraints(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_without_constraints, get_args(annotation)))
    if get_origin(annotation) is Sequence:
        return Sequence[_without_constraints(get_args(annotation)[0])]  # type: ignore[misc]
    return annotation
