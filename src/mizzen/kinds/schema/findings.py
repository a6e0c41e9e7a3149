"""What is found wrong, or odd, with something a person wrote: faults refuse it, warnings only say so.

`examine` looks at data in the light of a Part: unknown fields, types, and what each Part says in `check`; all at once.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError

from mizzen.errors import Fault
from mizzen.kinds.schema import lenient_decode, size_limits
from mizzen.kinds.schema.kind_names import CLOSE

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from mizzen.kinds.schema.resource import Part

MOST = 100
"""Unknown fields and wrong types of one object, and faults of one check, that are told: looking for what was meant
takes its time, and nobody reads thousands."""


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
    """Paths that are misspelt, of a wrong type, or missing. `examine` sets it for the checks it runs."""
    torn: frozenset[str] = frozenset()
    """Paths that hold unread ones, at any depth. `examine` sets it, too."""

    def read(self, at: str, *fields: str) -> bool:
        """Were these fields of the part at this path read? Only then is it known that they are absent.

        True also of a list or an object with faults within: it is there. `whole` speaks of what is within.
        """
        return not any(f"{at}.{name}" in self.unread for name in fields)

    def whole(self, at: str) -> bool:
        """Was all of it read, at any depth? Only then can it be counted and summed."""
        return at not in self.unread and at not in self.torn


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
    return _hint(close_to(word, valid), valid, noun)


def unknown(data: Mapping[str, Any], valid: Collection[str], path: str = "") -> tuple[Fault, ...]:
    """The first `MOST`, and whether there are more."""
    return tuple(fault for fault, _ in _few(_unknown(data, valid, path), path))


def examine(model: type[Part], data: Any, path: str, context: Context, *, strict: bool = True) -> Findings:
    """All faults and warnings of `data` read as `model`. Pure.

    `strict` is for what people send: no unknown fields, and no more entries than `caps` allows. What was meant by an
    unknown field is not reported as missing.
    """
    data, long = size_limits.without_excess(model, data, path) if strict else (data, ())
    if broken := tuple(islice(_not_unicode(data, path), MOST)):
        return Findings((*long, *broken))  # nothing else could even be written down
    strange = tuple(_few(unknown_in(model, data, path), path)) if strict else ()
    owed = tuple(_owed(model, data, path)) if strict and isinstance(data, Mapping) else ()
    typed, wrong, faulty = _typed(model, data, path)
    said = frozenset(f"{fault.path}.{meant}" for fault, meant in strange if meant)
    said = said.union(fault.path for fault in long)
    unread = said.union(faulty)
    torn = frozenset(top for place in unread for top in _around(place))
    known = replace(context, strict=strict, unread=unread, torn=torn)
    checked = checks(typed, path, known) if typed is not None else ()
    # Where something is wrong already, no check knows better: it saw the data without it.
    checked = (item for item in checked if not _under(item.path, unread))
    kept = (item for item in (*owed, *wrong, *checked) if not _under(item.path, said))
    return Findings.of((*long, *(fault for fault, _ in strange), *kept))


def checks(part: Part, path: str, context: Context) -> Iterator[Finding]:
    """What the part, and every part within it, says of itself."""
    from mizzen.kinds.schema.resource import Part

    yield from _first(part.check(path, context))
    for name, info in type(part).model_fields.items():
        for place, inner in _within(getattr(part, name), f"{path}.{info.alias or name}"):
            if isinstance(inner, Part):
                yield from checks(inner, place, context)


def _first(findings: Iterable[Finding]) -> Iterator[Finding]:
    """As long as they are not too many."""
    faults = 0
    for finding in findings:
        yield finding
        faults += isinstance(finding, Fault)
        if faults == MOST:
            return


def _few(strange: Iterator[tuple[Fault, str | None]], path: str) -> Iterator[tuple[Fault, str | None]]:
    yield from islice(strange, MOST)
    if next(strange, None) is not None:
        yield Fault(path, f"more than {MOST} fields are unknown; these are the first"), None


def unknown_in(model: type[Part], data: Any, path: str) -> Iterator[tuple[Fault, str | None]]:
    """Fields of `data`, read as `model`, that are unknown or given by two names, at every depth.

    With each goes the field that was meant, where it would otherwise be taken for absent, or for known. Faults of type
    are left to the model itself.
    """
    if not isinstance(data, Mapping):
        return
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    given: dict[str, str] = {}
    for name in data:
        known = model.synonyms.get(name, name)
        first = given.setdefault(known, name)
        if first != name:
            yield Fault(path, f"both '{first}' and '{name}' are given; they are the same field"), known
    if not model.open:
        strange = {name: 0 for name in data if name not in model.synonyms}
        for fault, meant in _unknown(strange, tuple(fields), path):
            yield fault, None if meant in given else meant
    for name, value in data.items():
        annotation = fields.get(model.synonyms.get(name, name))
        if annotation is not None:
            yield from _unknown_within(annotation, value, f"{path}.{name}")


def faults_of(error: ValidationError, root: str) -> tuple[Fault, ...]:
    """Pydantic's errors as our faults, with paths as people write them: spec.artifacts[0].digest. The first `MOST`, and
    how many there are."""
    return _faults(_errors(error), root)


def _faults(items: Sequence[ErrorDetails], root: str) -> tuple[Fault, ...]:
    found = dict.fromkeys(Fault(_path(root, item["loc"]), _message(item)) for item in items[:MOST])
    if len(items) > MOST:
        found[Fault(root, f"{len(items):,} faults; these are the first")] = None
    return tuple(found)


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


def _unknown(data: Iterable[str], valid: Collection[str], path: str) -> Iterator[tuple[Fault, str | None]]:
    """With each the valid name that was probably meant."""
    for name in (str(name) for name in data if name not in valid):
        meant = close_to(name, valid)
        yield Fault(path, f"unknown field '{name}'; {_hint(meant, valid)}"), meant


def _hint(close: str | None, valid: Collection[str], noun: str = "valid") -> str:
    if close is not None:
        return f"did you mean '{close}'?"
    return f"{noun} are {', '.join(valid)}" if valid else "none is possible here"


_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STEP = re.compile(r"[.\[]")


def _under(path: str, tops: Set[str]) -> bool:
    return path in tops or any(top in tops for top in _around(path))


def _around(path: str) -> Iterator[str]:
    """The paths that this one is within."""
    return (path[: step.start()] for step in _STEP.finditer(path))


def _typed(model: type[Part], data: Any, path: str) -> tuple[Part | None, tuple[Fault, ...], frozenset[str]]:
    """The data as `model`. With faults, what is left without what is faulty, so that the rest is examined, too; the
    faults, and the paths of all that is faulty."""
    # As JSON, because only there strict means what it says on the wire: a list is good for a tuple, "3" for no number.
    text = json.dumps(data)
    try:
        return model.model_validate_json(text, strict=True, extra="ignore"), (), frozenset()
    except ValidationError as error:
        items = _errors(error)
        places = frozenset(_path(path, item["loc"]) for item in items)
        return lenient_decode.read(model, text), _faults(items, path), places


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


def _unknown_within(annotation: Any, value: Any, path: str) -> Iterator[tuple[Fault, str | None]]:
    from mizzen.kinds.schema.resource import Part

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
