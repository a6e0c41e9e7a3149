"""Sets of fields of a JSON document, as field managers own them.

A field is a path of names. Objects are owned member by member; lists and all other values are owned as a whole, as
Kubernetes does for a CRD without list types. An object without members is a field by itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
Fields = frozenset[Path]

_SELF = "."
"""In FieldsV1: the object itself, in addition to its members."""


def leaves(document: Any) -> Fields:
    """Every field of a document."""
    return frozenset(path for path, _ in _values(document, ()))


def diff(old: Any, new: Any) -> tuple[Fields, Fields]:
    """The fields that are new or changed in `new`, and the fields of `old` that are missing from it."""
    before, after = dict(_values(old, ())), dict(_values(new, ()))
    changed = {path for path, value in after.items() if path not in before or not same(before[path], value)}
    return frozenset(changed), frozenset(before.keys() - after.keys())


def _values(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for name, member in value.items():
            yield from _values(member, (*at, name))
    elif at:
        yield at, value


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


MISSING = object()


def value_at(document: Any, path: Path) -> Any:
    """The value at a path; MISSING if there is none."""
    here = document
    for name in path:
        if not isinstance(here, Mapping) or name not in here:
            return MISSING
        here = here[name]
    return here


class PathOverlaps:
    """A set of paths that tests whether a path equals, is within, or contains one of them, in linear time."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = frozenset(paths)
        self.above = frozenset(path[:length] for path in self._paths for length in range(1, len(path)))
        """The proper prefixes of the paths."""

    def __contains__(self, path: Path) -> bool:
        return path in self.above or self.holder(path) is not None

    def holder(self, path: Path) -> Path | None:
        """The path of the set that equals or contains `path`."""
        starts = (path[:length] for length in range(1, len(path) + 1))
        return next((start for start in starts if start in self._paths), None)


def without(
    document: Mapping[str, Any], paths: Iterable[Path], keep: Container[Path] = (), at: Path = ()
) -> dict[str, Any]:
    """The document without these fields, and without objects that become empty, unless they are in `keep`. `at` is the
    path of the document itself."""
    result = dict(document)
    by_name: dict[str, list[Path]] = {}
    for path in paths:
        by_name.setdefault(path[0], []).append(path[1:])
    for name, rests in by_name.items():
        inner, here = result.get(name), (*at, name)
        if () in rests:
            result.pop(name, None)
        elif isinstance(inner, Mapping) and inner:
            result[name] = without(inner, rests, keep, here)
            if not result[name] and here not in keep:
                del result[name]
    return result


def to_wire(paths: Iterable[Path]) -> dict[str, Any]:
    """The paths in the FieldsV1 form of Kubernetes."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        here = tree
        for name in path:
            here = here.setdefault(f"f:{name}", {})
        here[_SELF] = {}
    return _lean(tree)


def _lean(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree without the self marks of fields that have no members."""
    return {
        name: {} if name == _SELF or set(inner) == {_SELF} else _lean(inner) for name, inner in sorted(tree.items())
    }


def from_wire(tree: Any) -> Fields:
    """Lenient: entries that are not field names (list keys and values of other servers) stand for their list."""
    return frozenset(_read(tree, ()))


def _read(tree: Any, at: Path) -> Iterator[Path]:
    if not isinstance(tree, Mapping):
        return
    members = [(name[2:], inner) for name, inner in tree.items() if isinstance(name, str) and name.startswith("f:")]
    if at and (_SELF in tree or len(members) < len(tree) or not tree):
        yield at
    for name, inner in members:
        yield from _read(inner, (*at, name))
