"""The content of a skops file as plain values: what skops would create, without creating any of its classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mizzen.runtime.content import strict_json
from mizzen.runtime.content.findings import DamagedFile, Unproven, quote
from mizzen.runtime.content.skops import classes, numpy_files
from mizzen.runtime.content.skops.zip_members import ZipMembers

SCHEMA: Final = "schema.json"
_PROTOCOL: Final = 2
_LARGEST_SCHEMA: Final = 256 << 20
_DEEPEST: Final = 100
_MEMBER: Final = re.compile(r"[-\w]{1,80}\.(npy|bin|npz)", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"(?!__)[A-Za-z_]\w{0,100}", re.ASCII)

_BUNCH: Final = "sklearn.utils._bunch.Bunch"
"""A dict whose items are attributes, too."""

_Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedObject:
    """An object: its class, and its attributes by name."""

    kind: str
    attributes: Mapping[str, Any]
    arguments: tuple[Any, ...] = ()
    """Of its constructor, for classes of native code."""

    @property
    def name(self) -> str:
        return self.kind.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type or a function, which is not called here."""

    kind: str


@dataclass(frozen=True, slots=True)
class ObjectArray:
    """An array of objects."""

    items: tuple[Any, ...]
    shape: tuple[int, ...]


@dataclass(slots=True)
class Reader:
    """Reads the schema of one file. `found` collects all classes that skops has to create."""

    members: ZipMembers
    found: set[str] = field(default_factory=set)
    _seen: dict[int, tuple[_Node, Any]] = field(default_factory=dict)

    def read(self) -> Any:
        """Return the file's object."""
        for name in self.members.names - {SCHEMA}:
            if not _MEMBER.fullmatch(name):
                raise Unproven(f"it has the member {quote(name)}, which skops does not write")
        text = self.members.read(SCHEMA)
        if len(text) > _LARGEST_SCHEMA:
            raise Unproven(f"its {SCHEMA} has {len(text)} bytes; at most {_LARGEST_SCHEMA} are inspected")
        schema = strict_json.parse(text, SCHEMA)
        protocol = schema.get("protocol") if isinstance(schema, dict) else None
        if type(protocol) is not int or protocol != _PROTOCOL:
            raise Unproven(f"it has the skops protocol {quote(protocol)}, and only {_PROTOCOL} is inspected")
        top = {key: value for key, value in schema.items() if key not in ("protocol", "_skops_version")}
        return self._value(top, 0)

    def _value(self, node: Any, depth: int) -> Any:
        if not isinstance(node, dict) or depth > _DEEPEST:
            raise Unproven(f"its {SCHEMA} is nested too deeply or has an unknown form")
        identity = node.get("__id__")
        if identity is not None and type(identity) is not int:
            raise Unproven(f"its {SCHEMA} has the id {quote(identity)}")
        earlier = self._seen.get(identity) if identity is not None else None
        if earlier is not None and earlier[1] is _UNFINISHED:
            raise Unproven(f"its {SCHEMA} has an object that contains itself")
        if earlier is not None and earlier[0] == node:
            return earlier[1]
        if identity is not None:
            self._seen[identity] = node, _UNFINISHED
        value = self._create(node, depth + 1)
        # skops creates one object for each id, and ignores what later ones with the same id contain.
        if earlier is not None and not _are_equal(earlier[1], value):
            raise Unproven(f"its {SCHEMA} has two objects with the id {identity}")
        if identity is not None:
            self._seen[identity] = node, value
        return value

    def _create(self, node: _Node, depth: int) -> Any:
        loader, module, name = node.get("__loader__"), node.get("__module__"), node.get("__class__")
        if not isinstance(loader, str) or not isinstance(module, str) or not isinstance(name, str):
            raise DamagedFile(f"its {SCHEMA} has an object without a class")
        kind = f"{module}.{name}"
        create = _LOADERS.get(loader)
        if create is None:
            raise Unproven(f"it contains a {quote(kind)}, which is read by {quote(loader)}")
        return create(self, node, kind, depth)

    def _scalar(self, node: _Node, kind: str, depth: int) -> Any:
        try:
            value = json.loads(node["content"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DamagedFile(f"its {SCHEMA} has an unreadable value") from error
        if not isinstance(value, str | int | float | bool | None):
            raise Unproven(f"its {SCHEMA} has the value {quote(value)}, which is not a number or text")
        return value

    def _items(self, content: Any, depth: int) -> list[Any]:
        if not isinstance(content, list):
            raise DamagedFile(f"its {SCHEMA} has a list without items")
        return [self._value(item, depth) for item in content]

    def _list(self, node: _Node, kind: str, depth: int) -> Any:
        creates = {"ListNode": list, "TupleNode": tuple, "SetNode": _set}[node["__loader__"]]
        expected = {"ListNode": "builtins.list", "TupleNode": "builtins.tuple", "SetNode": "builtins.set"}
        if kind != expected[node["__loader__"]]:
            raise Unproven(f"it contains a {quote(kind)}")
        return creates(self._items(node.get("content"), depth))  # type: ignore[operator]

    def _dict(self, node: _Node, kind: str, depth: int) -> dict[Any, Any]:
        content, types = node.get("content"), node.get("key_types")
        if kind == _BUNCH:
            self.found.add(kind)
        elif kind not in ("builtins.dict", "collections.OrderedDict"):
            raise Unproven(f"it contains a {quote(kind)}")
        if not isinstance(content, dict):
            raise DamagedFile(f"its {SCHEMA} has a dict without content")
        keys = self._value(types, depth)
        if not isinstance(keys, list) or len(keys) != len(content):
            raise Unproven(f"its {SCHEMA} has a dict with too few types of keys")
        values: dict[Any, Any] = {}
        for key_type, (key, value) in zip(keys, content.items(), strict=True):
            create = classes.KEYS.get(key_type.kind) if isinstance(key_type, NamedType) else None
            if create is None:
                raise Unproven(
                    f"its {SCHEMA} has a dict with keys of type {quote(getattr(key_type, 'kind', key_type))}"
                )
            try:
                values[create(key)] = self._value(value, depth)
            except ValueError as error:
                raise DamagedFile(f"its {SCHEMA} has the key {quote(key)}") from error
        if len(values) < len(content):
            raise Unproven(f"its {SCHEMA} has a dict with a key twice")
        return values

    def _slice(self, node: _Node, kind: str, depth: int) -> Any:
        content = node.get("content")
        if kind != "builtins.slice" or not isinstance(content, dict):
            raise DamagedFile(f"its {SCHEMA} has an unreadable slice")
        ends = [content.get(key) for key in ("start", "stop", "step")]
        if any(not isinstance(end, str | int | None) for end in ends):
            raise Unproven(f"its {SCHEMA} has an unusual slice")
        return slice(*ends)

    def _array(self, node: _Node, kind: str, depth: int) -> Any:
        if kind != "numpy.ndarray" and kind not in classes.NUMBERS:
            raise Unproven(f"it contains a {quote(kind)}")
        if node.get("type") == "numpy":
            return numpy_files.read(self._file(node), str(node["file"]))
        if node.get("type") != "json" or kind != "numpy.ndarray":
            raise Unproven(f"it contains an array of the type {quote(node.get('type'))}")
        shape = self._value(node.get("shape"), depth)
        if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
            raise Unproven("it contains an array with an unusual shape")
        return ObjectArray(tuple(self._items(node.get("content"), depth)), shape)

    def _file(self, node: _Node) -> bytes:
        name = node.get("file")
        if not isinstance(name, str) or name == SCHEMA:
            raise Unproven(f"an array names the file {quote(name)}")
        return self.members.read(name)

    def _type(self, node: _Node, kind: str, depth: int) -> NamedType:
        if kind not in classes.KEYS and kind not in classes.NUMBERS:
            raise Unproven(f"it contains the type {quote(kind)}")
        return NamedType(kind)

    def _dtype(self, node: _Node, kind: str, depth: int) -> NamedType:
        if kind != "numpy.dtype":
            raise Unproven(f"it contains a {quote(kind)}")
        self.found.add(kind)
        array = self._value(node.get("content"), depth)
        return NamedType(f"numpy.{getattr(array, 'dtype', 'object')}")

    def _function(self, node: _Node, kind: str, depth: int) -> NamedType:
        if kind not in classes.FUNCTIONS:
            raise Unproven(f"it contains the function {quote(kind)}")
        self.found.add(kind)
        return NamedType(kind)

    def _object(self, node: _Node, kind: str, depth: int) -> SavedObject:
        if kind not in classes.ALLOWED:
            raise Unproven(f"it contains a {quote(kind)}, which is not on the list of harmless classes")
        self.found.add(kind)
        attributes = self._value(node["content"], depth) if node.get("content") is not None else {}
        if attributes is None:
            attributes = {}
        if isinstance(attributes, tuple) and kind in classes.TUPLE_STATES:
            attributes = {f"item_{at}": item for at, item in enumerate(attributes)}
        _check_attributes(kind, attributes)
        return SavedObject(kind, attributes)

    def _native(self, node: _Node, kind: str, depth: int) -> SavedObject:
        """An object that a constructor of native code creates: a tree or a loss."""
        allowed = classes.TREES if node["__loader__"] == "TreeNode" else classes.LOSSES
        reduced = node.get("__reduce__")
        if kind not in allowed or not isinstance(reduced, dict):
            raise Unproven(f"it contains a {quote(kind)}, which is not on the list of harmless classes")
        self.found.add(kind)
        arguments, attributes = self._value(reduced.get("args"), depth), self._value(node.get("content"), depth)
        if not isinstance(arguments, tuple):
            raise Unproven(f"a {quote(kind)} has unusual arguments")
        if kind in classes.LOSSES:
            if attributes or not all(isinstance(one, int | float) for one in arguments):
                raise Unproven(f"a {quote(kind)} has unusual arguments")
            return SavedObject(kind, {}, arguments)
        _check_attributes(kind, attributes)
        return SavedObject(kind, attributes, arguments)

    def _random_state(self, node: _Node, kind: str, depth: int) -> SavedObject:
        if kind != "numpy.random.mtrand.RandomState":
            raise Unproven(f"it contains a {quote(kind)}")
        self.found.add(kind)
        attributes = self._value(node.get("content"), depth)
        if not isinstance(attributes, dict):
            raise Unproven(f"a {quote(kind)} has an unusual state")
        return SavedObject(kind, attributes)


_UNFINISHED: Final = object()

_LOADERS: Final[Mapping[str, Callable[[Reader, _Node, str, int], Any]]] = {
    "JsonNode": Reader._scalar,  # noqa: SLF001 - a table of its own methods
    "ListNode": Reader._list,  # noqa: SLF001
    "TupleNode": Reader._list,  # noqa: SLF001
    "SetNode": Reader._list,  # noqa: SLF001
    "DictNode": Reader._dict,  # noqa: SLF001
    "SliceNode": Reader._slice,  # noqa: SLF001
    "NdArrayNode": Reader._array,  # noqa: SLF001
    "TypeNode": Reader._type,  # noqa: SLF001
    "DTypeNode": Reader._dtype,  # noqa: SLF001
    "FunctionNode": Reader._function,  # noqa: SLF001
    "ObjectNode": Reader._object,  # noqa: SLF001
    "TreeNode": Reader._native,  # noqa: SLF001
    "LossNode": Reader._native,  # noqa: SLF001
    "RandomStateNode": Reader._random_state,  # noqa: SLF001
}
"""By the name of skops' class for them. Sparse matrices are missing: native code does not check their indexes."""


def _set(items: list[Any]) -> set[Any]:
    if not all(isinstance(item, Hashable) for item in items):
        raise Unproven("it contains a set with unusual items")
    return set(items)


def _are_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, SavedObject | ObjectArray):
        return all(_are_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)
    if isinstance(one, dict):
        return list(one) == list(other) and _are_equal(list(one.values()), list(other.values()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    if isinstance(one, np.ndarray | np.generic):
        return _are_equal_arrays(one, other)
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other)


def _are_equal_arrays(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.names:  # bytes between the fields of a structure may differ
        return all(one[name].tobytes() == other[name].tobytes() for name in one.dtype.names)
    return bool(one.tobytes() == other.tobytes())


def _check_attributes(kind: str, attributes: Any) -> None:
    if not isinstance(attributes, dict):
        raise Unproven(f"a {quote(kind)} has an unusual state")
    for name in attributes:
        if not isinstance(name, str) or not _ATTRIBUTE.fullmatch(name):
            raise Unproven(f"a {quote(kind)} has the attribute {quote(name)}")
