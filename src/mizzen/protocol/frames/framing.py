"""Frames between a gateway and a runtime: one stream socket per pair, many requests in one frame.

    u32 length of the whole frame | u8 protocol version | u8 type | u16 flags | u32 id | body

The runtime speaks first: HELLO as soon as it accepts a connection, which it does only once its model can answer. So a
replica is ready exactly when its hello arrives. The gateway then sends INFER frames and gets one REPLY (or several
parts, the last flagged LAST) with the same id, in any order. DRAIN from the runtime means: send no more, read what is
owed, then close.

**Versions.** After an upgrade, runtimes of the release before go on, and gateways of either release meet them. So a
release speaks its own version and the one before, and these never change: the header, that HELLO is a map, that fields
are added to it, that who does not know a field passes over it. HELLO is sent in the oldest version that the runtime
speaks, and its `frames` says up to which one it does; it is read whatever its version. The other side then speaks the
newest that both know, and is answered in the version that it asked in. Where there is none, the plane ends the runtime
and starts one of its own release in its place. What a peer can do without is no new version: it is a field of HELLO, as
`callers` and `feedback` are.

Bodies are msgpack (`protocol/frames/msgpack.py`):

    HELLO  {"state": "ready", "pid": int, "framework": str, "inputs": [tensor], "outputs": [tensor],
            "strict": bool, "batch": bool, "table": tensor or nil, "callers": bool, "feedback": bool,
            "reloads": bool, "files": str, "began": str, "frames": [oldest, newest]}
           tensor = {"name": str, "datatype": str, "shape": [int]}   (-1: any size); [] when nothing is declared
           strict: names outside `inputs` and `outputs` are the caller's fault
           batch: requests are merged by rows into one call of the model
           table: a tensor of whole rows that may be sent in place of all inputs, a column for each in their order
           callers: it takes, after the entries of an INFER frame, who sent them; absent: it does not
           feedback: its model wants to be told how well it did, by FEEDBACK; absent: it does not
           reloads: its model takes new parameters by RELOAD itself; files: which ones answer on this connection, as
           whoever started it or sent RELOAD calls them, "" when nobody said; began: those it was started with
           frames: the versions it speaks; absent: that of this frame alone
    INFER  [entry, ...]                   one entry per request: [inputs, outputs], [inputs, outputs, raw] or [body]
           inputs  = [[name, datatype, shape, encoding, data], ...]
                     data is the JSON text (JSON) or little-endian bytes (RAW)
           outputs = [name, ...] or nil for the default ones
           raw     = true, or the names of outputs that are wanted as bytes
           body    = a whole V1 request, as it came: what is in it, only the model's signature can tell
           Where the hello says `callers`, a map may follow the last entry:
           {"ids": bytes, "traces": [[place, traceparent, tracestate], ...], "timed": bool}
           ids of all requests, a line each; traces of those that have one, by the place of their entry, from 0
    REPLY  [service_us, [[status, payload], ...]]
           one entry per request, in the order asked; service_us is the time in the model. Where the INFER frame says
           `timed`, three numbers follow: before_us, what reading the batch took until then; after_us, all else; and how
           many requests were answered at once, those of other peers among them
           OK: payload is the JSON text of the V2 `outputs` list, or of the whole V1 answer; where `raw` was asked
           for, u32 length of that text | text, with binary_data_size in place of raw data | the raw data, in order
           else: an UTF-8 message for the caller
    DRAIN  empty
    RELOAD {"artifacts": str, "files": str, "entrypoint": str, "trusted": bool}
           from the plane: take new parameters from this folder, and call them so. Where the last three are absent, they
           have no name, and the rest is as at the start. Answered, with its id, by a HELLO when they are there, or by a
           REPLY with one entry that says why they are not. From the HELLO on they answer who sent RELOAD and whoever
           connects; all other peers get what they were greeted with, for as long as they stay connected
    FEEDBACK {"id": str, "reward": float, "truth": any}
           where the hello says `feedback`: how well the request with this id was answered, from 0 to 1, and what the
           answer should have been; `truth` is absent when nobody said. Nothing is answered
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

VERSION, OLDEST = 2, 2
"""What this release speaks: the newest, and the oldest that it still does."""
HEADER = struct.Struct("<IBBHI")
MAX_FRAME = 256 << 20
LARGE = 64 << 10
"""Frames of more bytes are worth a buffer of their own."""

HELLO, INFER, REPLY, DRAIN, RELOAD, FEEDBACK = 1, 2, 3, 4, 5, 6
LAST = 1

JSON, RAW = 0, 1

OK, BAD_INPUT, MODEL_FAILED = 0, 1, 2


class Frame(NamedTuple):
    type: int
    flags: int
    id: int
    body: memoryview | bytes


class FrameError(Exception):
    """The peer does not speak our frames; the connection is of no more use."""


class Foreign(FrameError):
    """Peer and this side have no version in common."""


def encode(type_: int, id_: int, body: bytes = b"", flags: int = LAST, version: int = VERSION) -> bytes:
    return HEADER.pack(HEADER.size + len(body), version, type_, flags, id_) + body


def common(told: Sequence[int] | None, seen: int) -> int:
    """The newest version that both sides speak. Foreign when there is none.

    `told`: what a HELLO says of the versions it speaks, if anything; `seen`: the version that it came in.
    """
    oldest, newest = (told[0], told[1]) if told else (seen, seen)
    found = min(VERSION, newest)
    if found < max(OLDEST, oldest):
        theirs, ours = _range(oldest, newest), _range(OLDEST, VERSION)
        raise Foreign(f"the peer speaks frame protocol {theirs}, this side speaks {ours}")
    return found


def _range(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


class Reader:
    """Cuts a stream of bytes into frames. Bodies are views of the bytes fed, or of a buffer of their own.

    A frame that is large and has only begun is read straight into its buffer, where `room` tells of one: else its bytes
    would be gathered and copied once more.
    """

    __slots__ = ("_have", "_large", "_need", "_parts", "version")

    def __init__(self) -> None:
        self.version = OLDEST
        """That of the last frame."""
        self._parts: list[bytes] = []
        self._have = 0
        self._need = HEADER.size
        self._large: bytearray | None = None
        """The whole of a frame that has begun, as far as it has come."""

    def room(self) -> memoryview | None:
        """Where the rest of a large frame is read into; `filled` is told how much came. None: `feed` what comes."""
        if self._large is None:
            if self._need < LARGE or not self._parts:
                return None
            self._large = bytearray(self._need)
            self._large[: self._have] = b"".join(self._parts)
            self._parts = []
        return memoryview(self._large)[self._have :]

    def filled(self, size: int) -> list[Frame]:
        """The frame, when that was the rest of it."""
        self._have += size
        if self._large is None or self._have < self._need:
            return []
        view = memoryview(self._large)
        _, _, type_, flags, id_ = HEADER.unpack_from(view)
        self._large = None
        self._need = HEADER.size
        self._have = 0
        return [Frame(type_, flags, id_, view[HEADER.size :])]

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that are complete now. FrameError on a foreign version or an absurd length."""
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
                raise Foreign(f"a frame of protocol {version}; this side speaks {_range(OLDEST, VERSION)}")
            self.version = version
            if not HEADER.size <= length <= MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes is beyond the limit of {MAX_FRAME}")
            if end - at < length:
                self._need = length
                break
            frames.append(Frame(type_, flags, id_, view[at + HEADER.size : at + length]))
            at += length
        if at < end:
            self._parts = [data[at:]]
            self._have = end - at
        return frames
