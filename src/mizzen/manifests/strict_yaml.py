"""The JSON subset of YAML, built from the parser's events: no aliases, no tags of other types, bounded depth.

Why not a stock loader: with aliases, a few lines expand to gigabytes. The fast loaders overflow the C stack on deep
nesting. All of them use the last of repeated keys, and turn text into dates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

DEPTH = 100
"""The deepest nesting of JSON and YAML."""

_CORE = "tag:yaml.org,2002:"
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ELSEWHERE_NO_TEXT = frozenset({"y", "Y", "n", "N"})


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One document of a text."""

    value: Any
    line: int
    """The line where it begins, from 1."""
    unquoted: Mapping[str, str] = field(default_factory=dict)
    """By path, unquoted values that are not read as text (`yes`, `010`), or not by kubectl (`y`)."""
    fault: str = ""
    """Why it is not an object; then its value is empty."""


def load(text: str) -> Any:
    """The one document in `text`. Raises ValueError or yaml.YAMLError with the fault and its position."""
    builder = _Builder()
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.DocumentStartEvent) and builder.documents:
            raise _fault("there is more than one document", event)
        builder.take(event)
    return builder.root


def load_all(text: str) -> Iterator[LoadedDocument]:
    """Each document in `text` that is not empty. Raises the errors of `load` when it reaches them."""
    builder = _Builder(noting=True)
    for event in yaml.parse(text, Loader=_Parser):
        builder.take(event)
        if isinstance(event, yaml.DocumentEndEvent) and builder.root is not None:
            yield LoadedDocument(builder.root, builder.line, builder.unquoted)


class _Builder:
    def __init__(self, *, noting: bool = False) -> None:
        self.root: Any = None
        self.documents = 0
        self.line = 1
        self.unquoted: dict[str, str] = {}
        self._noting = noting
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []
        """For each open collection, the key whose value comes next; None in lists, and before a key."""
        self._resolver = Resolver()
        self._constructor = SafeConstructor()

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                value = self._scalar(event)
                if self._noting and event.implicit[0]:
                    self._note(value, event.value)
                self._add(value, event)
            case yaml.MappingStartEvent():
                self._begin({}, event)
            case yaml.SequenceStartEvent():
                self._begin([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
                self._keys.pop()
            case yaml.AliasEvent():
                raise _fault("aliases are not supported", event)
            case yaml.DocumentStartEvent():
                self.documents += 1
                self.root, self.unquoted = None, {}

    def _begin(self, collection: dict[str, Any] | list[Any], event: Any) -> None:
        if event.tag not in (None, "!", _CORE + ("map" if isinstance(collection, dict) else "seq")):
            raise _fault(f"the type {event.tag} is not supported", event)
        if len(self._open) == DEPTH:
            raise _fault(f"more than {DEPTH} levels", event)
        self._add(collection, event)
        self._open.append(collection)
        self._keys.append(None)

    def _add(self, value: Any, event: Any) -> None:
        if not self._open:
            self.root, self.line = value, event.start_mark.line + 1
            return
        parent, key = self._open[-1], self._keys[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif key is not None:
            parent[key] = value
            self._keys[-1] = None
        elif not isinstance(value, str):
            raise _fault(f"the key {_source_text(value, event)} is not a text; quote it", event)
        elif value in parent:
            raise _fault(f"the key '{value}' is repeated", event)
        else:
            self._keys[-1] = value

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag in (None, "!"):
            tag = self._resolver.resolve(ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
            if tag not in _SCALARS:  # a date, or a special YAML symbol: read as text
                return event.value
        if tag not in _SCALARS:
            raise _fault(f"the type {tag} is not supported", event)
        node = ScalarNode(tag, event.value)
        return _SCALARS[tag](self._constructor, node)

    def _note(self, value: Any, written: str) -> None:
        if (value is not None and not isinstance(value, str)) or written in _ELSEWHERE_NO_TEXT:
            self.unquoted[self._path(written)] = written

    def _path(self, written: str) -> str:
        """The path of the next scalar; a key has the path of its value."""
        if not self._open:
            return ""
        above = [
            f"[{len(outer) - 1}]" if isinstance(outer, list) else f".{next(reversed(outer))}"
            for outer in self._open[:-1]
        ]
        inner, key = self._open[-1], self._keys[-1]
        last = f"[{len(inner)}]" if isinstance(inner, list) else f".{written if key is None else key}"
        return "".join((*above, last)).removeprefix(".")


_SCALARS: dict[str, Any] = {
    f"{_CORE}null": SafeConstructor.construct_yaml_null,
    f"{_CORE}bool": SafeConstructor.construct_yaml_bool,
    f"{_CORE}int": SafeConstructor.construct_yaml_int,
    f"{_CORE}float": SafeConstructor.construct_yaml_float,
    f"{_CORE}str": SafeConstructor.construct_yaml_str,
}


def _source_text(value: Any, event: Any) -> str:
    return repr(event.value) if isinstance(event, yaml.ScalarEvent) else f"{value!r}"


def _fault(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
