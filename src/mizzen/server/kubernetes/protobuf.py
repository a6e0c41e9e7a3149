"""The few objects that kubectl sends as Kubernetes' protobuf, and never as JSON. Pure, but for `read`.

A body is `k8s\\0` and a `runtime.Unknown`: what type it is, and the bytes of the object. Only messages and fields that
are listed here are read, each as the JSON that says the same; a field that nobody knows is refused, as it is in JSON.
Go writes fields that are not pointers even when they are empty: an empty text is as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from starlette.requests import Request

from mizzen.errors import BadRequest
from mizzen.server.http.request_bodies import read_bytes, read_object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
SMALL = 64 * 1024
"""Bytes of a body: what is sent like this is small."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: Mapping[int, Field] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    repeated: bool = False


Type: TypeAlias = Message | Literal["text", "bytes", "texts by text", "left out"]
"""What is `left out` must be well-formed and is not looked at: the server decides it, whatever is sent."""


async def read(request: Request, limit: int = SMALL) -> dict[str, Any]:
    """The body as an object, from protobuf or as `read_object` reads it. TooLarge, UnsupportedMediaType, BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        return await read_object(request, limit)
    return decode(await read_bytes(request, limit))


def decode(data: bytes) -> dict[str, Any]:
    """The object as JSON would say it. BadRequest."""
    if not data.startswith(MAGIC):
        raise BadRequest("the body is no protobuf of Kubernetes: it must begin with k8s and a zero byte")
    envelope = _message(memoryview(data)[len(MAGIC) :], UNKNOWN)
    if envelope.get("contentEncoding") or envelope.get("contentType", MEDIA_TYPE) != MEDIA_TYPE:
        raise BadRequest("what is in the body must be protobuf that is not encoded any further")
    type_ = envelope.get("typeMeta", {})
    said = (type_.get("apiVersion", ""), type_.get("kind", ""))
    message = MESSAGES.get(said)
    if message is None:
        raise BadRequest(
            f"cannot read {said[1][:100]!r} of {said[0][:100]!r} from protobuf", hint="send it as application/json"
        )
    return {"apiVersion": said[0], "kind": said[1], **_message(envelope.get("raw", b""), message)}


def _message(data: bytes | memoryview, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for number, wire, value in _fields(data, message.name):
        known = message.fields.get(number)
        if known is None:
            raise BadRequest(
                f"{message.name} has a field {number} that is not known here", hint="send it as application/json"
            )
        if known.type == "left out":
            continue
        if wire != BYTES or isinstance(value, int):
            raise BadRequest(f"{message.name}.{known.name} is of another type than it should be")
        if number in seen and not known.repeated and known.type != "texts by text":
            raise BadRequest(f"{message.name}.{known.name} comes twice")
        seen.add(number)
        _add(found, known, value, f"{message.name}.{known.name}")
    return found


def _add(found: dict[str, Any], known: Field, value: memoryview, at: str) -> None:
    match known.type:
        case "texts by text":
            entry = _message(value, ENTRY)
            found.setdefault(known.name, {})[entry.get("key", "")] = entry.get("value", "")
            return
        case "bytes":
            read: Any = bytes(value)
        case "text":
            read = _text(value, at)
            if not read and not known.repeated:
                return
        case Message() as inner:
            read = _message(value, inner)
        case _:
            return
    if known.repeated:
        found.setdefault(known.name, []).append(read)
    else:
        found[known.name] = read


def _fields(data: bytes | memoryview, of: str) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field, in order."""
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = _varint(view, at, of)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise BadRequest(f"{of} has a field whose number is none")
        if wire == VARINT:
            value, at = _varint(view, at, of)
            yield number, wire, value
            continue
        if wire not in (FIXED64, BYTES, FIXED32):
            raise BadRequest(f"{of} has a field of a type that is not used any more")
        size = {FIXED64: 8, FIXED32: 4}.get(wire, 0)
        if wire == BYTES:
            size, at = _varint(view, at, of)
        if size > len(view) - at:
            raise BadRequest(f"{of} ends in the middle of a field")
        yield number, wire, view[at : at + size]
        at += size


def _varint(view: memoryview, at: int, of: str) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(view[at : at + LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + position + 1
    raise BadRequest(f"{of} has a number that does not end")


def _text(value: memoryview, at: str) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{at} is no text") from error


def _texts(name: str, *names: str) -> Message:
    """A message of texts only, numbered as they come."""
    return Message(name, {number: Field(each, "text") for number, each in enumerate(names, 1)})


def _object(kind: str, spec: Message | None, status: int) -> Message:
    fields = {1: Field("metadata", OBJECT_META), status: Field("status", "left out")}
    return Message(kind, fields | ({2: Field("spec", spec)} if spec else {}))


ENTRY = _texts("a map", "key", "value")
UNKNOWN = Message(
    "the body",
    {
        1: Field("typeMeta", _texts("typeMeta", "apiVersion", "kind")),
        2: Field("raw", "bytes"),
        3: Field("contentEncoding", "text"),
        4: Field("contentType", "text"),
    },
)
OBJECT_META = Message(
    "metadata",
    {
        1: Field("name", "text"),
        2: Field("generateName", "text"),
        3: Field("namespace", "text"),
        4: Field("selfLink", "text"),
        5: Field("uid", "text"),
        6: Field("resourceVersion", "text"),
        7: Field("generation", "left out"),
        8: Field("creationTimestamp", "left out"),
        9: Field("deletionTimestamp", "left out"),
        10: Field("deletionGracePeriodSeconds", "left out"),
        11: Field("labels", "texts by text"),
        12: Field("annotations", "texts by text"),
        13: Field("ownerReferences", "left out"),
        14: Field("finalizers", "text", repeated=True),
        15: Field("clusterName", "left out"),
        17: Field("managedFields", "left out"),
    },
)

REQUIREMENT = Message(
    "requirement", {1: Field("key", "text"), 2: Field("operator", "text"), 3: Field("values", "text", repeated=True)}
)
SELECTOR = Message("selector", {1: Field("rawSelector", "text"), 2: Field("requirements", REQUIREMENT, repeated=True)})
RESOURCE = _texts("resourceAttributes", "namespace", "verb", "group", "version", "resource", "subresource", "name")
ACCESS = Message(
    "spec",
    {
        1: Field(
            "resourceAttributes",
            Message(
                RESOURCE.name,
                {**RESOURCE.fields, 8: Field("fieldSelector", SELECTOR), 9: Field("labelSelector", SELECTOR)},
            ),
        ),
        2: Field("nonResourceAttributes", _texts("nonResourceAttributes", "path", "verb")),
    },
)

MESSAGES: dict[tuple[str, str], Message] = {
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _object("SelfSubjectAccessReview", ACCESS, 3),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): _object(
        "SelfSubjectRulesReview", _texts("spec", "namespace"), 3
    ),
    ("authentication.k8s.io/v1", "SelfSubjectReview"): _object("SelfSubjectReview", None, 2),
    ("v1", "Namespace"): _object("Namespace", Message("spec", {1: Field("finalizers", "text", repeated=True)}), 3),
}
"""By apiVersion and kind; the numbers of fields are those of Kubernetes' `generated.proto` files."""
