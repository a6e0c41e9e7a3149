"""JSON patch, RFC 6902: a list of operations at places that JSON pointers (RFC 6901) name, all of them or none.

A few operations can say very much: each copy doubles what it copies, each insertion moves a whole list, each move nests
something once more. What all of a patch may do is counted while it is done.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mizzen.errors import BadRequest, Invalid, TooLarge
from mizzen.patches.field_sets import same

MOST_OPERATIONS: Final = 10_000
MOST_COPIED: Final = 3 << 20
"""Bytes as JSON that all copies of a patch make together, as in Kubernetes."""
MOST_SHIFTED: Final = 100_000_000
"""Items of lists that make or take room, in all of a patch: each operation at the front of a list of 10,000 fits."""
DEPTH: Final = 100
"""Levels below the top that the result may have: as many as any body."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPE = re.compile(r"~(?![01])")


def patched(document: Any, operations: Any) -> Any:
    """A new document; the argument is not changed.

    BadRequest: these are no operations. Invalid: they do not fit this document, or a `test` among them failed, or it
    would be nested too deeply. TooLarge: they are more work than any change is worth.
    """
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(f"a JSON patch has at most {MOST_OPERATIONS:,} operations, this one {len(operations):,}")
    work = _Work(copy.deepcopy(document))
    for number, operation in enumerate(operations):
        try:
            work.do(operation)
        except _Misfit as error:
            raise Invalid(f"operation {number} of the JSON patch does not fit: {error}") from error
        except _Unreadable as error:
            raise BadRequest(f"operation {number} of the JSON patch: {error}") from error
        except _TooMuch as error:
            hint = "send a merge patch, or the whole object"
            raise TooLarge(f"up to operation {number} the JSON patch {error}", hint=hint) from error
    if _too_deep(work.document):
        raise Invalid(f"the JSON patch makes more than {DEPTH} levels")
    return work.document


def copies(operations: Any) -> bool:
    """Whether there may be much to do, however short they are."""
    return isinstance(operations, list) and any(
        isinstance(operation, Mapping) and operation.get("op") == "copy" for operation in operations
    )


class _Misfit(Exception):
    pass


class _Unreadable(Exception):
    pass


class _TooMuch(Exception):
    pass


class _Work:
    """The document on its way to the result, and what was spent on it."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0
        self._shifted = 0

    def do(self, operation: Any) -> None:
        if not isinstance(operation, Mapping):
            raise _Unreadable("it must be an object")
        name = operation.get("op")
        do = _OPERATIONS.get(name) if isinstance(name, str) else None
        if do is None:
            raise _Unreadable(f"op must be one of {', '.join(_OPERATIONS)}, not {name!r}")
        do(self, operation)

    def add(self, operation: Mapping[str, Any]) -> None:
        self._insert(_pointer(operation, "path"), copy.deepcopy(_value(operation)))

    def remove(self, operation: Mapping[str, Any]) -> None:
        self._take(_pointer(operation, "path"))

    def replace(self, operation: Mapping[str, Any]) -> None:
        path, value = _pointer(operation, "path"), copy.deepcopy(_value(operation))
        if not path:
            self.document = value
            return
        _at(self.document, path)
        parent, last = _at(self.document, path[:-1]), path[-1]
        parent[_index(parent, last) if isinstance(parent, list) else last] = value

    def move(self, operation: Mapping[str, Any]) -> None:
        source, path = _pointer(operation, "from"), _pointer(operation, "path")
        value = _at(self.document, source)
        if source == path:
            return
        if path[: len(source)] == source:
            raise _Misfit(f"{_text(source)} cannot be moved into itself")
        self._take(source)
        self._insert(path, value)

    def copy(self, operation: Mapping[str, Any]) -> None:
        path = _pointer(operation, "path")
        value = _at(self.document, _pointer(operation, "from"))
        if _too_deep(value):
            raise _Misfit(f"it makes more than {DEPTH} levels")
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self._copied += len(text.encode(errors="surrogatepass"))
        if self._copied > MOST_COPIED:
            raise _TooMuch(f"copies more than {MOST_COPIED:,} bytes")
        self._insert(path, json.loads(text))

    def test(self, operation: Mapping[str, Any]) -> None:
        path, value = _pointer(operation, "path"), _value(operation)
        if not same(_at(self.document, path), value):
            raise _Misfit(f"{_text(path)} is not {json.dumps(value)[:200]}")

    def _insert(self, path: tuple[str, ...], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent, last = _at(self.document, path[:-1]), path[-1]
        if isinstance(parent, list):
            place = len(parent) if last == "-" else _index(parent, last, beyond=1)
            self._shift(parent, place)
            parent.insert(place, value)
        elif isinstance(parent, dict):
            parent[last] = value
        else:
            raise _Misfit(f"{_text(path[:-1])} is neither an object nor a list")

    def _take(self, path: tuple[str, ...]) -> None:
        if not path:
            self.document = None
            return
        _at(self.document, path)
        parent, last = _at(self.document, path[:-1]), path[-1]
        if isinstance(parent, list):
            self._shift(parent, _index(parent, last))
            del parent[_index(parent, last)]
        else:
            del parent[last]

    def _shift(self, items: list[Any], place: int) -> None:
        self._shifted += len(items) - place
        if self._shifted > MOST_SHIFTED:
            raise _TooMuch(f"moves more than {MOST_SHIFTED:,} items of lists to make room, or to close gaps")


_OPERATIONS: Final[Mapping[str, Callable[[_Work, Mapping[str, Any]], None]]] = {
    "add": _Work.add, "remove": _Work.remove, "replace": _Work.replace, "move": _Work.move, "copy": _Work.copy,
    "test": _Work.test,
}  # fmt: skip


def _too_deep(document: Any) -> bool:
    """Level by level: Python's own stack would end before a document does that moves have nested."""
    level = [document]
    for _ in range(DEPTH + 1):
        level = [inner for value in level if isinstance(value, dict | list) for inner in _inner(value)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _at(document: Any, path: tuple[str, ...]) -> Any:
    here = document
    for depth, step in enumerate(path):
        if isinstance(here, list):
            here = here[_index(here, step)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            raise _Misfit(f"there is no {_text(path[: depth + 1])}")
    return here


def _index(items: list[Any], step: str, beyond: int = 0) -> int:
    """`beyond`: how far behind the last item it may point."""
    if not _INDEX.fullmatch(step):
        raise _Misfit(f"'{step}' is no place in a list")
    if int(step) >= len(items) + beyond:
        raise _Misfit(f"a list of {len(items)} has no place {step}")
    return int(step)


def _pointer(operation: Mapping[str, Any], name: str) -> tuple[str, ...]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _Unreadable(f"{name} is required, as a JSON pointer")
    if (text and not text.startswith("/")) or _ESCAPE.search(text):
        raise _Unreadable(f"{name}={text!r} is no JSON pointer; write it like /spec/replicas")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise _Unreadable("value is required")
    return operation["value"]


def _text(path: tuple[str, ...]) -> str:
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path) or "the whole document"
