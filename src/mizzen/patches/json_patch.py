"""JSON patch, RFC 6902: a list of operations at JSON pointers (RFC 6901), applied all or none.

A short patch can cause much work: a copy may double the document, an insertion shifts a whole list, a move nests a
value deeper. The work of a patch is counted and limited while it is applied.
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
"""Total bytes, as JSON, that the copies of a patch may produce, as in Kubernetes."""
MOST_SHIFTED: Final = 100_000_000
"""Total list items that a patch may shift: enough for every operation at the front of a list of 10,000."""
DEPTH: Final = 100
"""The deepest nesting of the result, the same as for any body."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPE = re.compile(r"~(?![01])")


def apply_patch(document: Any, operations: Any) -> Any:
    """A new document; the argument is not changed.

    Raises BadRequest if the operations are not valid. Raises Invalid if they do not fit the document, a `test` failed,
    or the result would be nested too deeply. Raises TooLarge if they cause too much work.
    """
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch must be a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(f"a JSON patch may have at most {MOST_OPERATIONS:,} operations, not {len(operations):,}")
    work = _PatchState(copy.deepcopy(document))
    for number, operation in enumerate(operations):
        try:
            work.do(operation)
        except _DoesNotFit as error:
            raise Invalid(f"operation {number} of the JSON patch does not fit: {error}") from error
        except _Unreadable as error:
            raise BadRequest(f"operation {number} of the JSON patch: {error}") from error
        except _TooMuch as error:
            hint = "send a merge patch, or the whole object"
            raise TooLarge(f"up to operation {number} the JSON patch {error}", hint=hint) from error
    if _too_deep(work.document):
        raise Invalid(f"the JSON patch produces more than {DEPTH} levels")
    return work.document


def copies(operations: Any) -> bool:
    """Whether the operations contain a copy, and so may cause much work even if they are short."""
    return isinstance(operations, list) and any(
        isinstance(operation, Mapping) and operation.get("op") == "copy" for operation in operations
    )


class _DoesNotFit(Exception):
    pass


class _Unreadable(Exception):
    pass


class _TooMuch(Exception):
    pass


class _PatchState:
    """The document while operations are applied, and the work done so far."""

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
            raise _DoesNotFit(f"{_text(source)} cannot be moved into itself")
        self._take(source)
        self._insert(path, value)

    def copy(self, operation: Mapping[str, Any]) -> None:
        path = _pointer(operation, "path")
        value = _at(self.document, _pointer(operation, "from"))
        if _too_deep(value):
            raise _DoesNotFit(f"it produces more than {DEPTH} levels")
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self._copied += len(text.encode(errors="surrogatepass"))
        if self._copied > MOST_COPIED:
            raise _TooMuch(f"copies more than {MOST_COPIED:,} bytes")
        self._insert(path, json.loads(text))

    def test(self, operation: Mapping[str, Any]) -> None:
        path, value = _pointer(operation, "path"), _value(operation)
        if not same(_at(self.document, path), value):
            raise _DoesNotFit(f"{_text(path)} is not {json.dumps(value)[:200]}")

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
            raise _DoesNotFit(f"{_text(path[:-1])} is neither an object nor a list")

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
            raise _TooMuch(f"shifts more than {MOST_SHIFTED:,} list items")


_OPERATIONS: Final[Mapping[str, Callable[[_PatchState, Mapping[str, Any]], None]]] = {
    "add": _PatchState.add, "remove": _PatchState.remove, "replace": _PatchState.replace,
    "move": _PatchState.move, "copy": _PatchState.copy, "test": _PatchState.test,
}  # fmt: skip


def _too_deep(document: Any) -> bool:
    """Level by level, since recursion would overflow the stack on a document that moves have nested."""
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
            raise _DoesNotFit(f"there is no {_text(path[: depth + 1])}")
    return here


def _index(items: list[Any], step: str, beyond: int = 0) -> int:
    """`beyond`: how far past the last item it may point."""
    if not _INDEX.fullmatch(step):
        raise _DoesNotFit(f"'{step}' is not a list index")
    if int(step) >= len(items) + beyond:
        raise _DoesNotFit(f"a list of {len(items)} has no index {step}")
    return int(step)


def _pointer(operation: Mapping[str, Any], name: str) -> tuple[str, ...]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _Unreadable(f"{name} is required, as a JSON pointer")
    if (text and not text.startswith("/")) or _ESCAPE.search(text):
        raise _Unreadable(f"{name}={text!r} is not a JSON pointer; write it like /spec/replicas")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise _Unreadable("value is required")
    return operation["value"]


def _text(path: tuple[str, ...]) -> str:
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path) or "the whole document"
