"""JSON patch, RFC 6902: a list of operations at places that JSON pointers (RFC 6901) name, all of them or none."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mizzen.errors import BadRequest, Invalid
from mizzen.patches.fields import same

MOST_OPERATIONS: Final = 10_000

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPE = re.compile(r"~(?![01])")


def patched(document: Any, operations: Any) -> Any:
    """A new document; the argument is not changed.

    BadRequest: these are no operations. Invalid: they do not fit this document, or a `test` among them failed.
    """
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(f"a JSON patch has at most {MOST_OPERATIONS:,} operations, this one {len(operations):,}")
    result = copy.deepcopy(document)
    for number, operation in enumerate(operations):
        try:
            result = _done(result, operation)
        except _Misfit as error:
            raise Invalid(f"operation {number} of the JSON patch does not fit: {error}") from error
        except _Unreadable as error:
            raise BadRequest(f"operation {number} of the JSON patch: {error}") from error
    return result


class _Misfit(Exception):
    pass


class _Unreadable(Exception):
    pass


def _done(document: Any, operation: Any) -> Any:
    if not isinstance(operation, Mapping):
        raise _Unreadable("it must be an object")
    name = operation.get("op")
    do = _OPERATIONS.get(name) if isinstance(name, str) else None
    if do is None:
        raise _Unreadable(f"op must be one of {', '.join(_OPERATIONS)}, not {name!r}")
    return do(document, operation)


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _added(document, _pointer(operation, "path"), copy.deepcopy(_value(operation)))


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    return _removed(document, _pointer(operation, "path"))


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    path, value = _pointer(operation, "path"), copy.deepcopy(_value(operation))
    if not path:
        return value
    _at(document, path)
    parent, last = _at(document, path[:-1]), path[-1]
    parent[_index(parent, last) if isinstance(parent, list) else last] = value
    return document


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    source, path = _pointer(operation, "from"), _pointer(operation, "path")
    value = _at(document, source)
    if source == path:
        return document
    if path[: len(source)] == source:
        raise _Misfit(f"{_text(source)} cannot be moved into itself")
    return _added(_removed(document, source), path, value)


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation, "path")
    return _added(document, path, copy.deepcopy(_at(document, _pointer(operation, "from"))))


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    path, value = _pointer(operation, "path"), _value(operation)
    if not same(_at(document, path), value):
        raise _Misfit(f"{_text(path)} is not {json.dumps(value)[:200]}")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test,
}  # fmt: skip


def _added(document: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, beyond=1), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _Misfit(f"{_text(path[:-1])} is neither an object nor a list")
    return document


def _removed(document: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return None
    _at(document, path)
    parent, last = _at(document, path[:-1]), path[-1]
    del parent[_index(parent, last) if isinstance(parent, list) else last]
    return document


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
