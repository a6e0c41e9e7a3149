"""YAML as far as JSON goes, built from the parser's events: no aliases, no tags of other types, bounded depth.

Why not a stock loader: aliases let a few lines expand to gigabytes, the fast loaders overflow the C stack on deep
nesting, and all of them take the last of repeated keys and make dates of text.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

DEPTH = 100
"""How deep JSON and YAML may be nested."""

_CORE = "tag:yaml.org,2002:"
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """The one document in `text`. ValueError or yaml.YAMLError say what is wrong, and where."""
    builder = _Builder()
    for event in yaml.parse(text, Loader=_Parser):
        builder.take(event)
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root: Any = None
        self._documents = 0
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []
        """For each open collection the key whose value comes next; None in lists, and before a key."""
        self._resolver = Resolver()
        self._constructor = SafeConstructor()

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._add(self._scalar(event), event)
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
                self._documents += 1
                if self._documents > 1:
                    raise _fault("there is more than one document", event)

    def _begin(self, collection: dict[str, Any] | list[Any], event: Any) -> None:
        if event.tag not in (None, "!", _CORE + ("map" if isinstance(collection, dict) else "seq")):
            raise _fault(f"the type {event.tag} is not supported", event)
        if len(self._open) == DEPTH:
            raise _fault(f"more than {DEPTH} levels", event)
        self._add(collection, event)
        self._open.append(collection)
        self._keys.append(None)

    def _add(self, value: Any, event: yaml.Event) -> None:
        if not self._open:
            self.root = value
            return
        parent, key = self._open[-1], self._keys[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif key is not None:
            parent[key] = value
            self._keys[-1] = None
        elif not isinstance(value, str):
            raise _fault(f"the key {value!r} is no text; quote it", event)
        elif value in parent:
            raise _fault(f"the key '{value}' is repeated", event)
        else:
            self._keys[-1] = value

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag in (None, "!"):
            tag = self._resolver.resolve(ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
            if tag not in _SCALARS:  # a date, or one of YAML's signs: to us a text
                return event.value
        if tag not in _SCALARS:
            raise _fault(f"the type {tag} is not supported", event)
        node = ScalarNode(tag, event.value)
        return _SCALARS[tag](self._constructor, node)


_SCALARS: dict[str, Any] = {
    f"{_CORE}null": SafeConstructor.construct_yaml_null,
    f"{_CORE}bool": SafeConstructor.construct_yaml_bool,
    f"{_CORE}int": SafeConstructor.construct_yaml_int,
    f"{_CORE}float": SafeConstructor.construct_yaml_float,
    f"{_CORE}str": SafeConstructor.construct_yaml_str,
}


def _fault(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
