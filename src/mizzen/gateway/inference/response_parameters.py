"""Parameters of an answer in addition to its outputs, in the form of each protocol, and the record of the answer.

V2 has parameters in JSON and in gRPC messages; V1 has none, so there they are headers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Protocol

from mizzen.protobuf_wire import encode_field, encode_varint
from mizzen.protocol import v2

Value = str | float | bool
Members = Sequence[tuple[str, bytes]]
"""Nodes, and what they answered, all of it as bytes."""
_DOUBLE = struct.Struct("<d")


class RecordedCall(Protocol):
    """A call as its record needs it."""

    id: bytes
    began: float
    named: bool
    plain: bool
    user: str
    members: Members

    @property
    def codec(self) -> object: ...


class AnswerRecorder(Protocol):
    """Writes a record of each answer (`feedback.record_keeper`)."""

    def write(self, call: RecordedCall, what: bytes, payload: bytes) -> None: ...


class ResponseParameters:
    """Created once for all answers with the same parameters."""

    __slots__ = ("_fields", "_lines", "json", "parameters", "record", "writer")

    def __init__(
        self, parameters: Mapping[str, Value], writer: AnswerRecorder | None = None, record: bytes = b""
    ) -> None:
        """`writer` records each answer; `record` is the part of the record that is known in advance."""
        self.parameters = parameters
        self.json = b',"parameters":%b' % v2.to_json(parameters) if parameters else b""
        """JSON that follows the id of an answer."""
        self.writer = writer
        self.record = record
        self._lines: bytes | None = None
        self._fields: bytes | None = None

    @property
    def header_lines(self) -> bytes:
        """The parameters as header lines, for V1."""
        if self._lines is None:
            self._lines = b"".join(
                b"mizzen-%b: %b\r\n" % (name.replace("_", "-").encode(), v2.header_text(_format_value(value)))
                for name, value in self.parameters.items()
            )
        return self._lines

    @property
    def fields(self) -> bytes:
        """The parameters as fields of a ModelInferResponse."""
        if self._fields is None:
            self._fields = b"".join(
                encode_field(4, encode_field(1, name.encode()) + encode_field(2, _encode_parameter(value)))
                for name, value in self.parameters.items()
            )
        return self._fields

    def on_answer(self, call: RecordedCall, payload: bytes, now: float) -> None:
        """Called before the answer is sent, because the client can send feedback at once."""
        if self.writer is not None:
            self.writer.write(call, self.record, payload)

    def on_failure(self, call: RecordedCall, code: int, text: bytes, now: float) -> tuple[int, bytes]:
        """Returns the code and text for the caller."""
        return code, text

    def on_cancel(self, call: RecordedCall, now: float) -> None:
        """Called if the caller is gone."""

    def on_move(self) -> None:
        """Called if the request moves to another endpoint, which sets its own parameters."""


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.6g}"


def _encode_parameter(value: Value) -> bytes:
    if isinstance(value, bool):
        return encode_varint(1 << 3) + encode_varint(int(value))
    if isinstance(value, str):
        return encode_field(3, value.encode())
    return encode_varint(4 << 3 | 1) + _DOUBLE.pack(value)
