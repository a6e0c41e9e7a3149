"""What is found wrong, or odd, with something a person wrote: faults refuse it, warnings only say so.

`examine` looks at data in the light of a Part: unknown fields, types, and what each Part says in `check`; all at once.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError

from mizzen.errors import Fault

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from mizzen.kinds.meta import Part

MOST = 100
"""Unknown fields of one object that are told; looking for what was meant takes its time."""

CLOSE = 0.75
"""The ratio of difflib from which one word may have been meant for another."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Something odd that changes nothing: where, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


Finding: TypeAlias = Fault | Warn


@dataclass(frozen=True, slots=True)
class Context:
    """What a check may know beside the data itself."""

    capabilities: frozenset[str] = frozenset()
    """What the engine of this home can do: `containers`, `gpus`."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """The object's own name."""
    namespace: str = ""
    """The object's own namespace; empty when it is not known yet."""
    strict: bool = True
    """A person sent it, so unknown fields are faults. `examine` sets it for the checks it runs."""
    unread: frozenset[str] = frozenset()
    """Paths of fields that are there, but misspelt or of a wrong type. `examine` sets it for the checks it runs."""

    def whole(self, at: str) -> bool:
        """Was every field of the part at this path read? Only then is it known that one is missing."""
        return not any(path.rpartition(".")[0] == at for path in self.unread)


@dataclass(frozen=True, slots=True)
class Findings:
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Warn, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Findings:
        """Each once, in the order they were found."""
        found = tuple(dict.fromkeys(findings))
        return cls(
            tuple(item for item in found if isinstance(item, Fault)),
            tuple(item for item in found if isinstance(item, Warn)),
        )

    def __iter__(self) -> Iterator[Finding]:
        yield from self.faults
        yield from self.warnings


def close_to(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that was probably meant."""
    names = {name.lower(): name for name in valid}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=CLOSE)
    return names[close[0]] if close else None


def suggestion(word: str, valid: Collection[str], noun: str = "valid") -> str:
    """`did you mean 'x'?` when something valid is close, else `<noun> are a, b`."""
    close = close_to(word, valid)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"{noun} are {', '.join(valid)}" if valid else "none is possible here"


def unknown(data: Mapping[str, Any], valid: Collection[str], path: str = "") -> tuple[Fault, ...]:
    """After `MOST`, the rest is not worth its price."""
    strange = islice((str(name) for name in data if name not in valid), MOST)
    return tuple(Fault(path, f"unknown field '{name}'; {suggestion(name, valid)}") for name in strange)


def examine(model: type[Part], data: Any, path: str, context: Context, *, strict: bool = True) -> Findings:
    """All faults and warnings of `data` read as `model`. Pure.

    `strict` is for what people send: no unknown fields. What was meant by an unknown field is not reported as missing.
    """
    if broken := tuple(_not_unicode(data, path)):
        return Findings(broken)  # nothing else could even be written down
    strange = tuple(unknown_in(model, data, path)) if strict else ()
    owed = tuple(_owed(model, data, path)) if strict and isinstance(data, Mapping) else ()
    typed, wrong, gone = _typed(model, data, path)
    said = {f"{fault.path}.{meant[1]}" for fault in strange if (meant := _MEANT.search(fault.message))}
    unread = frozenset({*said, *gone, *(fault.path for fault in wrong)})
    checked = checks(typed, path, replace(context, strict=strict, unread=unread)) if typed is not None else ()
    # Where something is wrong already, no check knows better: it saw the data without it.
    checked = (item for item in checked if not any(_under(item.path, place) for place in unread))
    kept = (item for item in (*owed, *wrong, *checked) if not any(_under(item.path, meant) for meant in said))
    return Findings.of((*strange, *kept))


def checks(part: Part, path: str, context: Context) -> Iterator[Finding]:
    """What the part, and every part within it, says of itself."""
    from mizzen.kinds.meta import Part

    yield from part.check(path, context)
    for name, info in type(part).model_fields.items():
        for place, inner in _within(getattr(part, name), f"{path}.{info.alias or name}"):
            if isinstance(inner, Part):
                yield from checks(inner, place, context)


def unknown_in(model: type[Part], data: Any, path: str) -> Iterator[Fault]:
    """Unknown fields of `data`, read as `model`, at every depth. Faults of type are left to the model itself."""
    if not isinstance(data, Mapping):
        return
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    if not model.open:
        yield from unknown({name: 0 for name in data if name not in model.synonyms}, tuple(fields), path)
    for name, value in data.items():
        annotation = fields.get(model.synonyms.get(name, name))
        if annotation is not None:
            yield from _unknown_within(annotation, value, f"{path}.{name}")


def faults_of(error: ValidationError, root: str) -> tuple[Fault, ...]:
    """Pydantic's errors as our faults, with paths as people write them: spec.artifacts[0].digest."""
    return tuple(dict.fromkeys(Fault(_path(root, item["loc"]), _message(item)) for item in _errors(error)))


def _errors(error: ValidationError) -> list[ErrorDetails]:
    """Without those that only follow: pydantic does not count faulty items of a list, and says it is too short."""
    items = error.errors(include_url=False)
    faulty = {item["loc"][:-depth] for item in items for depth in range(1, len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in faulty]


def _owed(model: type[Part], data: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """Fields that people must give although stored objects may lack them."""
    given = {model.synonyms.get(name, name) for name, value in data.items() if value is not None}
    for name, info in model.model_fields.items():
        if name in model.required_of_users and (info.alias or name) not in given:
            yield Fault(f"{path}.{info.alias or name}", _MESSAGES["missing"])


_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MEANT = re.compile(r"^unknown field .*; did you mean '(.*)'\?$")


def _under(path: str, top: str) -> bool:
    return path == top or path.startswith((f"{top}.", f"{top}["))


def _typed(model: type[Part], data: Any, path: str) -> tuple[Part | None, tuple[Fault, ...], frozenset[str]]:
    """The data as `model`. With faults, what is left without the faulty fields, so that the rest is examined, too.

    The last are the paths of what had to go with them: lists and objects that cannot be without what is faulty.
    """
    try:
        return _validated(model, data), (), frozenset()
    except ValidationError as error:
        faults, items = faults_of(error, path), _errors(error)
    left, gone = deepcopy(data), set[tuple[int | str, ...]]()
    stuck = [
        item
        for item in items
        if not (_removed(left, item["loc"]) or _filled(left, item) or _pruned(left, item["loc"], gone))
    ]
    while not stuck:
        try:
            return _validated(model, left), faults, frozenset(_path(path, place) for place in gone)
        except ValidationError as error:
            stuck = [item for item in _errors(error) if not _pruned(left, item["loc"], gone)]
    return None, faults, frozenset()


def _validated(model: type[Part], data: Any) -> Part:
    # As JSON, because only there strict means what it says on the wire: a list is good for a tuple, "3" for no number.
    return model.model_validate_json(json.dumps(data), strict=True, extra="ignore")


def _removed(data: Any, place: tuple[int | str, ...]) -> bool:
    """Take one field out. False when it is no field of an object: an item of a list cannot go without moving others."""
    for step in place[:-1]:
        if not isinstance(data, list | dict) or (isinstance(data, list) and not isinstance(step, int)):
            return False
        try:
            data = data[step]  # type: ignore[index]
        except (KeyError, IndexError):
            return False
    return bool(place) and isinstance(data, dict) and data.pop(place[-1], data) is not data


def _filled(data: Any, item: ErrorDetails) -> bool:
    """Put an empty text where a required field is absent. If it must not be one, the next reading says so."""
    place = item["loc"]
    for step in place[:-1]:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return False
    if item["type"] != "missing" or not isinstance(data, dict) or place[-1] in data:
        return False
    data[place[-1]] = ""
    return True


def _pruned(data: Any, place: tuple[int | str, ...], gone: set[tuple[int | str, ...]]) -> bool:
    """Take out the nearest field around a place. False when there is none."""
    around = (place[:end] for end in range(len(place) - 1, 0, -1) if isinstance(place[end - 1], str))
    for field_ in around:
        if field_ in gone or _removed(data, field_):
            gone.add(field_)
            return True
    return False


def _not_unicode(data: Any, path: str) -> Iterator[Fault]:
    """Halves of characters, which JSON can write and no text can hold."""
    for place, value in _within(data, path):
        if _SURROGATE.search(place):
            yield Fault(place.encode("ascii", "backslashreplace").decode(), "has a name that is no Unicode text")
        elif isinstance(value, str) and _SURROGATE.search(value):
            yield Fault(place, "is no Unicode text")


def _within(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match value:
        case tuple() | list():
            for index, item in enumerate(value):
                yield from _within(item, f"{path}[{index}]")
        case dict():
            for key, item in value.items():
                yield from _within(item, f"{path}.{key}")
        case _:
            yield path, value


def _unknown_within(annotation: Any, value: Any, path: str) -> Iterator[Fault]:
    from mizzen.kinds.meta import Part

    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _unknown_within(arguments[0], value, path)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _unknown_within(argument, value, path)
    elif origin in (tuple, list) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_within(arguments[0], item, f"{path}[{index}]")
    elif origin in (tuple, list) and isinstance(value, Mapping):  # one object in place of a list of one
        yield from _unknown_within(arguments[0], value, path)
    elif origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown_within(arguments[1], item, f"{path}.{key}")
    elif isinstance(annotation, type) and issubclass(annotation, Part):
        yield from unknown_in(annotation, value, path)


def _path(root: str, loc: tuple[int | str, ...]) -> str:
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)


_MESSAGES = {
    "missing": "required",
    "string_type": "must be a text; quote it: '{input}'",
    "int_type": "must be a whole number, not {shown}",
    "int_from_float": "must be a whole number, not {shown}",
    "float_type": "must be a number, not {shown}",
    "finite_number": "must be a number, not {shown}",
    "bool_type": "must be true or false, not {shown}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "greater_than_equal": "must be at least {ge}, not {shown}",
    "greater_than": "must be above {gt}, not {shown}",
    "less_than_equal": "must be at most {le}, not {shown}",
    "less_than": "must be below {lt}, not {shown}",
    "too_short": "must have at least {min_length}",
    "string_too_short": "must not be empty",
}


def _message(item: ErrorDetails) -> str:
    given, context = item["input"], item.get("ctx", {})
    if item["type"] == "literal_error":
        valid = re.findall(r"'([^']*)'", context["expected"])
        return f"{_shown(given)} is not possible; {suggestion(str(given), valid)}"
    text = _MESSAGES.get(item["type"])
    if text is None or (item["type"] == "string_type" and isinstance(given, dict | list)):
        return "must be a text" if item["type"] == "string_type" else item["msg"].removeprefix("Value error, ")
    limits = {name: f"{value:g}" if isinstance(value, float) else value for name, value in context.items()}
    return text.format(input=given, shown=_shown(given), **limits)


def _shown(value: Any) -> str:
    match value:
        case str():
            return f"'{value[:100]}'"
        case dict():
            return "an object"
        case list():
            return "a list"
    return json.dumps(value)[:100]
