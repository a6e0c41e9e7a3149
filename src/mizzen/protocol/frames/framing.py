"""Frames between a gateway and a runtime: one stream socket per pair, many requests in one frame.

    u32 length of the whole frame | u8 protocol version | u8 type | u16 flags | u32 id | body

The runtime speaks first: it sends HELLO as soon as it accepts a connection, and accepts only once its model can answer.
So a replica is ready exactly when its hello arrives. A runtime whose socket has a key sends CHALLENGE first, and HELLO
once the peer has answered with AUTH; it closes the connection upon anything else. The gateway then sends INFER frames
and gets one REPLY each (or several parts, the last flagged LAST) with the same id, in any order. DRAIN from the runtime
means: send no more requests, read the outstanding replies, then close.

**Versions.** After an upgrade, runtimes of the previous release keep running, and gateways of both releases connect to
them. So a release speaks its own version and the previous one. Some things never change: the header, that HELLO is a
map, that fields may be added to it, and that unknown fields are ignored. HELLO is sent in the oldest version that the
runtime speaks, and its `frames` names the newest; it is accepted in any version. The other side then uses the newest
version that both speak, and each reply has the version of its request. If there is no common version, the plane stops
the runtime and starts one of its own release. An optional capability is not a new version but a field of HELLO, such as
`callers` and `feedback`.

Bodies are msgpack (`protocol/frames/msgpack.py`):

    HELLO  {"state": "ready", "pid": int, "framework": str, "inputs": [tensor], "outputs": [tensor],
            "strict": bool, "batch": bool, "table": tensor or nil, "callers": bool, "feedback": bool,
            "reloads": bool, "files": str, "began": str, "frames": [oldest, newest]}
           tensor = {"name": str, "datatype": str, "shape": [int]}   (-1: any size); [] when nothing is declared
           strict: names outside `inputs` and `outputs` are the caller's error
           batch: requests are merged by rows into one call of the model
           table: a tensor of whole rows that may be sent in place of all inputs, with a column for each input in order
           callers: it accepts caller details after the entries of an INFER frame; absent: it does not
           feedback: its model wants FEEDBACK frames; absent: it does not
           reloads: its model itself takes new parameters by RELOAD; files: those that answer on this connection, as
           named at the start or by RELOAD, "" if they have no name; began: those it was started with
           frames: the versions it speaks; absent: only that of this frame
    INFER  [entry, ...]                   one entry per request: [inputs, outputs], [inputs, outputs, raw] or [body]
           inputs  = [[name, datatype, shape, encoding, data], ...]
                     data is JSON text (JSON) or little-endian bytes (RAW)
           outputs = [name, ...], or nil for the default outputs
           raw     = true, or the names of outputs that are requested as bytes
           body    = a whole V1 request, unparsed: only the model's signature defines its content
           If the hello has `callers`, a map may follow the last entry:
           {"ids": bytes, "traces": [[place, traceparent, tracestate], ...], "timed": bool, "memory": bool}
           ids of all requests, one per line; traces of those that have one, by the index of their entry, from 0
    REPLY  [service_us, [[status, payload], ...]]
           one entry per request, in order; service_us is the time in the model. If the INFER frame has `timed`, three
           numbers follow: before_us, the time to read the batch; after_us, the rest; and the number of requests that
           were answered together, including those of other peers
           OK: payload is the JSON text of the V2 `outputs` list, or of the whole V1 answer; if `raw` was requested,
           u32 length of that text | text, with binary_data_size in place of raw data | the raw data, in order
           else: a UTF-8 message for the caller
    DRAIN  empty
    RELOAD {"artifacts": str, "files": str, "entrypoint": str, "trusted": bool}
           from the plane: load new parameters from this folder, under this name. If the last three are absent, they
           have no name, and the rest is as at the start. Answered with the same id: by a HELLO once they are loaded, or
           by a REPLY with one entry that says why not. From the HELLO on, they answer the peer that sent RELOAD and new
           connections; all other peers keep the parameters of their own HELLO until they disconnect
    FEEDBACK {"id": str, "reward": float, "truth": any}
           if the hello has `feedback`: how well the request with this id was answered, from 0 to 1, and the correct
           answer; `truth` is absent if it is unknown. There is no reply
    OUT_OF_MEMORY int
           if the INFER frame of this id has `memory`: the runtime ends now, because its memory ran out with this entry
           alone, by index; there is no REPLY
    CHALLENGE, AUTH
           random bytes, and their HMAC-SHA256 with the key of the socket (`authentication.py`)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

VERSION, OLDEST = 2, 2
"""The versions that this release speaks: the newest and the oldest."""
HEADER = struct.Struct("<IBBHI")
MAX_FRAME = 256 << 20
LARGE = 64 << 10
"""Larger frames get their own buffer."""

HELLO, INFER, REPLY, DRAIN, RELOAD, FEEDBACK, CHALLENGE, AUTH, OUT_OF_MEMORY = 1, 2, 3, 4, 5, 6, 7, 8, 9
LAST = 1

JSON, RAW = 0, 1

OK, BAD_INPUT, MODEL_FAILED = 0, 1, 2


class ReceivedFrame(NamedTuple):
    type: int
    flags: int
    id: int
    body: memoryview | bytes


class FrameError(Exception):
    """The peer does not speak this frame protocol; the connection is unusable."""


class UnsupportedVersion(FrameError):
    """The peer and this side have no version in common."""


def encode(type_: int, id_: int, body: bytes = b"", flags: int = LAST, version: int = VERSION) -> bytes:
    return HEADER.pack(HEADER.size + len(body), version, type_, flags, id_) + body


def negotiate_version(hello_versions: Sequence[int] | None, frame_version: int) -> int:
    """Return the newest version that both sides speak. Raises UnsupportedVersion if there is none.

    `hello_versions`: the versions that a HELLO names, if any; `frame_version`: the version of the HELLO frame.
    """
    oldest, newest = (hello_versions[0], hello_versions[1]) if hello_versions else (frame_version, frame_version)
    found = min(VERSION, newest)
    if found < max(OLDEST, oldest):
        theirs, ours = _format_range(oldest, newest), _format_range(OLDEST, VERSION)
        raise UnsupportedVersion(f"the peer speaks frame protocol {theirs}, this side speaks {ours}")
    return found


def _format_range(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


class FrameReader:
    """Splits a stream of bytes into frames. Bodies are views of the bytes fed, or of their own buffer.

    The rest of a large frame is read straight into its buffer (`get_buffer`); otherwise its bytes would be collected
    and copied once more.
    """

    __slots__ = ("_have", "_large", "_need", "_parts", "version")

    def __init__(self) -> None:
        self.version = OLDEST
        """Version of the last frame."""
        self._parts: list[bytes] = []
        self._have = 0
        self._need = HEADER.size
        self._large: bytearray | None = None
        """Buffer for a large frame that has only partly arrived."""

    def get_buffer(self) -> memoryview | None:
        """Return the buffer for the rest of a large frame, followed by `buffer_updated`. None: use `feed`."""
        if self._large is None:
            if self._need < LARGE or not self._parts:
                return None
            self._large = bytearray(self._need)
            self._large[: self._have] = b"".join(self._parts)
            self._parts = []
        return memoryview(self._large)[self._have :]

    def buffer_updated(self, size: int) -> list[ReceivedFrame]:
        """Return the frame if `size` bytes completed it."""
        self._have += size
        if self._large is None or self._have < self._need:
            return []
        view = memoryview(self._large)
        _, _, type_, flags, id_ = HEADER.unpack_from(view)
        self._large = None
        self._need = HEADER.size
        self._have = 0
        return [ReceivedFrame(type_, flags, id_, view[HEADER.size :])]

    def feed(self, data: bytes) -> list[ReceivedFrame]:
        """Return all complete frames. Raises FrameError for an unsupported version or an absurd length."""
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
            self._parts = []
        frames = []
        at, end, view = 0, len(data), memoryview(data)
        self._need = HEADER.size
        while end - at >= HEADER.size:
            length, version, type_, flags, id_ = HEADER.unpack_from(data, at)
            if not OLDEST <= version <= VERSION and type_ != HELLO:
                raise UnsupportedVersion(
                    f"the frame has protocol {version}; this side speaks {_format_range(OLDEST, VERSION)}"
                )
            self.version = version
            if not HEADER.size <= length <= MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes exceeds the limit of {MAX_FRAME}")
            if end - at < length:
                self._need = length
                break
            frames.append(ReceivedFrame(type_, flags, id_, view[at + HEADER.size : at + length]))
            at += length
        if at < end:
            self._parts = [data[at:]]
            self._have = end - at
        return frames
