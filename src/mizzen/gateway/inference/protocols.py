"""The protocols that requests come in: how a body is read into a call, and how the call's answer reads.

V2 is read here as far as it can be without touching a value; a V1 body is handed on whole, because only the signature
of the model tells what is in it. `ValueError` is a fault of the caller, in words for them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mizzen.gateway.request.request_ids import Trace
from mizzen.protocol import binary, json_tensor_split, v2
from mizzen.protocol.frames import framing

if TYPE_CHECKING:
    from mizzen.gateway.access.rate_limits import Allowance
    from mizzen.gateway.inference.default_outputs import Default
    from mizzen.gateway.inference.inference import Inference, Service

JSON = b"content-type: application/json\r\n"
RETRY = JSON + b"retry-after: %d\r\n"
"""Of a 503."""
_BYTES = b"content-type: application/octet-stream\r\ninference-header-content-length: %d\r\n"
DEFAULT = b"mizzen-default: true\r\nmizzen-default-reason: %b\r\n"
TIMEOUT = b"mizzen-timeout-ms"
USER = b"mizzen-user"
"""For whom it is asked: a split or a bandit may go by that."""
_MILLISECONDS = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,12})?")
_OBJECT = re.compile(rb"\s*\{")


class Options(NamedTuple):
    """What the head of a request says of how its body is to be taken, and of whose it is. Made once per head."""

    timeout_ms: bytes | None = None
    header_length: bytes | None = None
    """Of the JSON that bytes follow, where they do."""
    id: bytes = b""
    """What the request is called where its body does not say."""
    trace: Trace | None = None
    method: str = "POST"
    path: bytes = b""
    """As it came, without what follows a question mark."""
    actor: str = ""
    more: bytes = b""
    """Header lines that go with whatever is answered."""
    allowance: Allowance | None = None
    """Of who asks, if they have a limit."""

    rpc: bool = False
    """It came over gRPC."""
    heads: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that graphs listen to, or send on, by names in lower case."""

    def heard(self, name: bytes, value: bytes) -> Options:
        """With one more of the headers that it is about. Sent twice they are a list, as any header is, and no number:
        else two readers of one request could take different ones for the right one."""
        if name == binary.HEADER:
            return self._replace(header_length=_listed(self.header_length, value))
        return self._replace(timeout_ms=_listed(self.timeout_ms, value))

    def said(self, name: bytes) -> bytes:
        """The value of a header that graphs listen to; empty: it is not there."""
        return next((value for known, value in self.heads if known == name), b"")


def _listed(before: bytes | None, value: bytes) -> bytes:
    return value if before is None else before + b", " + value


PLAIN = Options()


class Dialect(Protocol):
    """One protocol. Has no state: all that is known of a request is in its call."""

    def read(self, call: Inference, service: Service, body: bytes, options: Options) -> None:
        """Fill in `item`, `id`, `seconds` and `plain`."""

    def answer(self, call: Inference, payload: bytes) -> tuple[bytes, bytes]:
        """The body, and the header lines that say what it is, where that is not `plain`."""

    def default(self, call: Inference, default: Default, why: bytes) -> tuple[bytes, bytes] | None:
        """The same for a default answer to its `item`; None when it has not all that was asked for."""


class _V2:
    def read(self, call: Inference, service: Service, body: bytes, options: Options) -> None:
        request: v2.InferRequest | binary.BinaryRequest
        entries: list[v2.Entry]
        if options.header_length is not None:
            request, entries = binary.decode(body, options.header_length)
        elif len(body) > json_tensor_split.LARGE:
            request, entries = json_tensor_split.decode(body)
        else:
            request = v2.decode(body)
            entries = [
                (each.name, each.datatype, each.shape, framing.JSON, memoryview(each.data)) for each in request.inputs
            ]
        endpoint = call.endpoint
        if request.id:
            call.id = v2.header_text(request.id)
            call.id_json = v2.to_json(request.id)
        elif options.id:
            call.id = options.id
            call.id_json = v2.to_json(options.id.decode())
        else:
            call.id = endpoint.new_id()
            call.id_json = b'"%b"' % call.id
            call.named = False
        parameters, outputs = request.parameters, request.outputs
        if endpoint.bound is not None:
            call.user = user_of(parameters, options)
        if options.timeout_ms is not None or parameters is not None:
            call.seconds = min(
                call.seconds, milliseconds(options.timeout_ms), v2.timeout_seconds(parameters) or call.seconds
            )
        queues = endpoint.queues
        signature = queues[0].signature if queues else None
        if signature is not None:
            signature.check(request.inputs, outputs)
        if parameters is None and not outputs:
            call.plain = True
            call.item = (entries, None)
            return
        names = None if outputs is None else [output.name for output in outputs]
        raw = binary.raw_outputs(parameters, outputs)
        call.plain = not raw
        call.item = (entries, names, raw) if raw else (entries, names)

    def answer(self, call: Inference, payload: bytes) -> tuple[bytes, bytes]:
        said = call.id_json if call.notes is None else call.id_json + call.notes.json
        return _with_bytes(call.endpoint.head, said, payload)

    def default(self, call: Inference, default: Default, why: bytes) -> tuple[bytes, bytes] | None:
        entries, names, *raw = call.item
        shape = entries[0][2]
        rows = shape[0] if shape else 1
        payload = default.outputs(rows, names, raw[0] if raw else None) if rows <= call.size else None
        if payload is None:  # as for rows that cannot have come: each has a byte at least
            return None
        said = b'%b,"parameters":{"default":true,"default_reason":"%b"}' % (call.id_json, why)
        if call.plain:
            body, kind = v2.answer(call.endpoint.head, said, payload), JSON
        else:
            body, kind = _with_bytes(call.endpoint.head, said, payload)
        return body, kind + DEFAULT % why


class _V1:
    def read(self, call: Inference, service: Service, body: bytes, options: Options) -> None:
        call.named = bool(options.id)
        call.id = options.id or call.endpoint.new_id()
        if call.endpoint.bound is not None:
            call.user = user_of(None, options)
        if options.timeout_ms is not None:
            call.seconds = min(call.seconds, milliseconds(options.timeout_ms))
        if not _OBJECT.match(body):
            raise ValueError("the body: expected an object" if body else "the body is empty")
        call.plain = False
        call.item = (body,)

    def answer(self, call: Inference, payload: bytes) -> tuple[bytes, bytes]:
        return payload, JSON if call.notes is None else JSON + call.notes.lines

    def default(self, call: Inference, default: Default, why: bytes) -> tuple[bytes, bytes] | None:
        body = default.predictions(call.item[0])
        return None if body is None else (body, JSON + DEFAULT % why)


V2: Dialect = _V2()
V1: Dialect = _V1()


def _with_bytes(head: bytes, id_json: bytes, payload: bytes) -> tuple[bytes, bytes]:
    body, length = binary.answer(head, id_json, payload)
    return body, _BYTES % length


def user_of(parameters: dict[str, Any] | None, options: Options) -> str:
    """For whom it is asked, where that is said. ValueError."""
    user = None if parameters is None else parameters.get("user")
    if user is None:
        return v2.cited(options.said(USER).decode("latin-1")) if options.heads else ""
    if not isinstance(user, str) or len(user) > v2.MAX_CITED:
        raise ValueError(f"parameters.user: expected a string of at most {v2.MAX_CITED} characters")
    return user


def milliseconds(header: bytes | None) -> float:
    """What Mizzen-Timeout-Ms says, in seconds. ValueError."""
    if header is None:
        return float("inf")
    value = float(header) if _MILLISECONDS.fullmatch(header) else 0.0
    if value <= 0:
        raise ValueError("header Mizzen-Timeout-Ms: expected a positive number")
    return value / 1000
