"""Decoder for the few objects that kubectl sends only as Kubernetes protobuf, never as JSON. Pure, except `read_body`.

A body is `k8s\\0` and a `runtime.Unknown`: the type, and the bytes of the object. Only the messages and fields listed
here are decoded, each to the equivalent JSON; an unknown field is rejected, as in JSON.
Go writes empty fields unless they are pointers, so an empty string counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from starlette.requests import Request

from mizzen import protobuf_wire
from mizzen.errors import BadRequest
from mizzen.protobuf_wire import BYTES, Malformed
from mizzen.server.http.request_bodies import media_type, read_bytes, read_object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
MAX_BODY_BYTES = 64 * 1024
"""Objects sent this way are small."""


@dataclass(frozen=True, slots=True)
class MessageDescriptor:
    name: str
    fields: Mapping[int, FieldDescriptor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    name: str
    type: FieldType
    repeated: bool = False


FieldType: TypeAlias = MessageDescriptor | Literal["text", "bytes", "string map", "ignored"]
"""An `ignored` field must be well-formed, but the server sets its value."""


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The body as an object, from protobuf or as in `read_object`. TooLarge, UnsupportedMediaType, BadRequest."""
    if media_type(request) != MEDIA_TYPE:
        return await read_object(request, limit)
    return decode(await read_bytes(request, limit))


def decode(data: bytes) -> dict[str, Any]:
    """The object as in JSON. Raises BadRequest."""
    if not data.startswith(MAGIC):
        raise BadRequest("the body is not Kubernetes protobuf: it must begin with k8s and a zero byte")
    envelope = _decode_message(memoryview(data)[len(MAGIC) :], UNKNOWN)
    if envelope.get("contentEncoding") or envelope.get("contentType", MEDIA_TYPE) != MEDIA_TYPE:
        raise BadRequest("the content of the body must be protobuf without further encoding")
    type_ = envelope.get("typeMeta", {})
    version, kind = type_.get("apiVersion", ""), type_.get("kind", "")
    message = MESSAGES.get((version, kind))
    if message is None:
        raise BadRequest(
            f"cannot decode {kind[:100]!r} of {version[:100]!r} from protobuf", hint="send it as application/json"
        )
    return {"apiVersion": version, "kind": kind, **_decode_message(envelope.get("raw", b""), message)}


def _decode_message(data: bytes | memoryview, message: MessageDescriptor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for number, wire, value in _iter_fields(data, message.name):
        known = message.fields.get(number)
        if known is None:
            raise BadRequest(f"{message.name} has an unknown field {number}", hint="send it as application/json")
        if known.type == "ignored":
            continue
        if wire != BYTES or isinstance(value, int):
            raise BadRequest(f"{message.name}.{known.name} has the wrong wire type")
        if number in seen and not known.repeated and known.type != "string map":
            raise BadRequest(f"{message.name}.{known.name} is given twice")
        seen.add(number)
        _add_field(found, known, value, f"{message.name}.{known.name}")
    return found


def _add_field(found: dict[str, Any], known: FieldDescriptor, value: memoryview, at: str) -> None:
    match known.type:
        case "string map":
            entry = _decode_message(value, ENTRY)
            found.setdefault(known.name, {})[entry.get("key", "")] = entry.get("value", "")
            return
        case "bytes":
            read: Any = bytes(value)
        case "text":
            read = _decode_text(value, at)
            if not read and not known.repeated:
                return
        case MessageDescriptor() as inner:
            read = _decode_message(value, inner)
        case _:
            return
    if known.repeated:
        found.setdefault(known.name, []).append(read)
    else:
        found[known.name] = read


def _iter_fields(data: bytes | memoryview, of: str) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field, in order. Raises BadRequest."""
    try:
        yield from protobuf_wire.iter_fields(data, read=protobuf_wire.read_exact_varint)
    except Malformed as error:
        raise BadRequest(f"{of}: {error}") from error


def _decode_text(value: memoryview, at: str) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{at} is not valid UTF-8") from error


def _fields(names: Mapping[int, str], type_: FieldType, *, repeated: bool = False) -> dict[int, FieldDescriptor]:
    return {number: FieldDescriptor(name, type_, repeated) for number, name in names.items()}


def _string_message(name: str, *names: str) -> MessageDescriptor:
    """A message of string fields only, numbered in order."""
    return MessageDescriptor(name, _fields(dict(enumerate(names, 1)), "text"))


def _object_message(kind: str, spec: MessageDescriptor | None, status: int) -> MessageDescriptor:
    fields = {1: FieldDescriptor("metadata", OBJECT_META), status: FieldDescriptor("status", "ignored")}
    return MessageDescriptor(kind, fields | ({2: FieldDescriptor("spec", spec)} if spec else {}))


ENTRY = _string_message("a map", "key", "value")
UNKNOWN = MessageDescriptor(
    "the body",
    {
        1: FieldDescriptor("typeMeta", _string_message("typeMeta", "apiVersion", "kind")),
        2: FieldDescriptor("raw", "bytes"),
        **_fields({3: "contentEncoding", 4: "contentType"}, "text"),
    },
)
OBJECT_META = MessageDescriptor(
    "metadata",
    {
        **_fields(
            {1: "name", 2: "generateName", 3: "namespace", 4: "selfLink", 5: "uid", 6: "resourceVersion"}, "text"
        ),
        **_fields({7: "generation", 8: "creationTimestamp", 9: "deletionTimestamp"}, "ignored"),
        **_fields({10: "deletionGracePeriodSeconds", 13: "ownerReferences"}, "ignored"),
        **_fields({15: "clusterName", 17: "managedFields"}, "ignored"),
        **_fields({11: "labels", 12: "annotations"}, "string map"),
        **_fields({14: "finalizers"}, "text", repeated=True),
    },
)

REQUIREMENT = MessageDescriptor(
    "requirement", {**_fields({1: "key", 2: "operator"}, "text"), **_fields({3: "values"}, "text", repeated=True)}
)
SELECTOR = MessageDescriptor(
    "selector", {**_fields({1: "rawSelector"}, "text"), **_fields({2: "requirements"}, REQUIREMENT, repeated=True)}
)
RESOURCE = _string_message(
    "resourceAttributes", "namespace", "verb", "group", "version", "resource", "subresource", "name"
)
SELECTED_RESOURCE = MessageDescriptor(
    RESOURCE.name, {**RESOURCE.fields, **_fields({8: "fieldSelector", 9: "labelSelector"}, SELECTOR)}
)
ACCESS = MessageDescriptor(
    "spec",
    {
        1: FieldDescriptor("resourceAttributes", SELECTED_RESOURCE),
        2: FieldDescriptor("nonResourceAttributes", _string_message("nonResourceAttributes", "path", "verb")),
    },
)

MESSAGES: dict[tuple[str, str], MessageDescriptor] = {
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _object_message("SelfSubjectAccessReview", ACCESS, 3),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): _object_message(
        "SelfSubjectRulesReview", _string_message("spec", "namespace"), 3
    ),
    ("authentication.k8s.io/v1", "SelfSubjectReview"): _object_message("SelfSubjectReview", None, 2),
    ("v1", "Namespace"): _object_message(
        "Namespace", MessageDescriptor("spec", {1: FieldDescriptor("finalizers", "text", repeated=True)}), 3
    ),
}
"""By apiVersion and kind; the numbers of fields are those of Kubernetes' `generated.proto` files."""
