"""Calls with one message, on streams of HTTP/2: read whole before anything is done with it; and how calls end."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from mizzen.access.refusal_lines import LONGEST
from mizzen.access.safe_text import plain
from mizzen.errors import TooLarge
from mizzen.gateway.access.authorizer import ALLOWED, PLANE, PREDICT, READ, Ruling
from mizzen.gateway.grpc.call_head import Opening, Unfit
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.inference.inference import Asked, Service
from mizzen.gateway.inference.protocols import Options
from mizzen.gateway.request import content_encoding
from mizzen.gateway.request.body_budget import CROWDED, Share, keep
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.web.http2.stream import Stream

PREFIX = struct.Struct(">BL")
"""Before each message: whether it is packed, and how long it is."""
QUESTION_BYTES = 64 << 10
"""Of a message that is read here, and not by a model."""
UNASKED_BYTES = 16 << 10
"""Of one for a model that has not come whole, beyond which it matters who sends it."""
LARGE_HEAD = 2 << 10
"""Bytes of a head that counts like its message, until that has come: a connection may have hundreds of them."""
PATIENT_SECONDS, HASTY_SECONDS = 1.0, 0.01

log = logging.getLogger(__name__)

Named: TypeAlias = tuple[str, str, str]
"""Namespace, name and version of what was asked for; empty where nothing was."""


class Visit:
    """One call, as far as it is the same for all: how it ends, and what is noted of that."""

    __slots__ = ("began", "named", "opening", "service", "size", "stream")

    def __init__(self, service: Service, stream: Stream, opening: Opening) -> None:
        self.service = service
        self.stream = stream
        self.opening = opening
        self.began = service.clock()
        self.size = 0
        """Bytes that came."""
        self.named: Named = ("", "", "")

    def answer(self, message: bytes) -> None:
        request_id = self.opening.options.id or self.service.new_id()
        self.stream.answer(status.head(request_id), PREFIX.pack(0, len(message)) + message, status.TAIL)
        self.note(request_id, OK, len(message))

    def refuse(self, unfit: Unfit, *, counted: bool = False) -> None:
        """`counted`: somebody else has, as a request that reaches no model."""
        request_id = self.opening.options.id or self.service.new_id()
        if not counted:
            self.service.metrics.refused[unfit.code] += 1
        self.stream.refuse(status.refusal(unfit.code, unfit.text, retry=unfit.retry, request_id=request_id))
        self.note(request_id, unfit.code)

    def require(self, ruling: Ruling) -> None:
        """Unfit, and written down, where it is a refusal."""
        if ruling.code != ALLOWED:
            self.service.note(Asked("POST", self.opening.method, self.opening.credentials), ruling)
            raise Unfit(ruling.code, ruling.reason, int(ruling.code == UNAVAILABLE))

    def require_known(self) -> None:
        """Unfit for who may call nothing at all here."""
        opening = self.opening
        self.require(self.service.permits.rule_some(opening.credentials, (*PREDICT, *READ), opening.namespace))

    def lapsed(self) -> bool:
        """Whether the caller has waited about as long as it said it would, or long enough not to be one who cancels
        calls as fast as it makes them."""
        waited = self.service.clock() - self.began
        return waited >= max(min(self.opening.seconds, PATIENT_SECONDS) / 2, HASTY_SECONDS)

    def note(self, request_id: bytes, code: int, bytes_out: int = 0, options: Options | None = None) -> None:
        """For the access log, and for who traces it."""
        service, opening = self.service, self.opening
        if code < service.noted_from:
            return
        actor = service.permits.rule(opening.credentials, READ, PLANE).actor
        namespace, model, version = (plain(text, LONGEST) for text in self.named)
        service.ended(
            (options or opening.options)._replace(actor=actor), request_id or service.new_id(), code, began=self.began,
            bytes_in=self.size, bytes_out=bytes_out, served=(namespace, model, version) if model else None,
        )  # fmt: skip


class Unary:
    """A Receiver. `begin` gets the message, and returns what to do when nobody waits any more."""

    __slots__ = ("_begin", "_cancel", "_head", "_most", "_parts", "_share", "_size", "_visit", "_welcome")

    def __init__(
        self, visit: Visit, begin: Callable[[Visit, bytes], Callable[[], object]], most: int, head: int = 0
    ) -> None:
        """`head`: how many bytes it has. Unfit where there is no room for it."""
        self._visit = visit
        self._begin = begin
        self._most = most
        self._welcome = most <= QUESTION_BYTES
        """Whoever sends it: they may, or it is so little that its answer says whether they may."""
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._share: Share | None = None
        """Of a message that does not come in one piece, and of a large head."""
        self._cancel: Callable[[], object] | None = None
        self._head = 0 if head <= LARGE_HEAD else head
        if self._head and not visit.stream.heard:
            self._share = Share(visit.service.intake)
            if not self._share.grow(self._head):
                self._drop()
                raise Unfit(UNAVAILABLE, CROWDED, 1)

    def received(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most + PREFIX.size:
            self._refuse(too_large(self._most))
            return
        keep(self._parts, data)
        if self._visit.stream.heard:
            return
        if self._share is None:
            self._share = Share(self._visit.service.intake)
        try:
            if self._size > UNASKED_BYTES:
                self._require_welcome()
        except Unfit as unfit:
            self._refuse(unfit)
            return
        if not self._share.grow(self._head + self._size):
            self._refuse(Unfit(UNAVAILABLE, CROWDED, 1))

    def ended(self) -> None:
        parts, visit = self._parts, self._visit
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        visit.size = size = len(body)
        if self._share is not None:
            self._drop()
        if size >= PREFIX.size and PREFIX.unpack_from(body) == (0, size - PREFIX.size):
            self._cancel = self._begin(visit, body[PREFIX.size :])
            return
        try:
            self._require_packed(body)
            self._require_welcome()
        except Unfit as unfit:
            visit.refuse(unfit)
        else:
            self._cancel = begun(visit, self._unpacked(body[PREFIX.size :]))

    def cancelled(self) -> None:
        self._drop()
        if self._cancel is not None:
            self._cancel()
        else:
            self._visit.note(self._visit.opening.options.id, GONE)

    def moved(self) -> None:
        """All of its answer waits already."""

    def lapsed(self) -> bool:
        return self._visit.lapsed()

    def stopping(self) -> None:
        """It is answered first."""

    def _require_welcome(self) -> None:
        """Unfit: more of the message is not waited for, nor is it unpacked, for who may call nothing at all."""
        if not self._welcome:
            self._visit.require_known()
            self._welcome = True

    def _require_packed(self, body: bytes) -> None:
        """One message that has to be unpacked first, and can be."""
        if len(body) < PREFIX.size:
            raise Unfit(BAD_REQUEST, "the call brings no message")
        packed, size = PREFIX.unpack_from(body)
        if len(body) != PREFIX.size + size or packed != 1:
            raise Unfit(BAD_REQUEST, "the call does not bring exactly one message")
        if not self._visit.opening.encoding:
            raise Unfit(BAD_REQUEST, "the message says that it is packed, and the head of the call not how")

    async def _unpacked(self, packed: bytes) -> None:
        visit = self._visit
        share = Share(visit.service.intake)
        try:
            message = await content_encoding.unpacked(packed, visit.opening.encoding, share, self._most)
        except ValueError as error:
            raise Unfit(BAD_REQUEST, str(error)) from error
        except TooLarge as error:
            raise too_large(self._most) from error
        finally:
            share.end()
        if message is None:
            raise Unfit(UNAVAILABLE, CROWDED, 1)
        self._cancel = self._begin(visit, message)

    def _refuse(self, unfit: Unfit) -> None:
        self._drop()
        self._visit.refuse(unfit)

    def _drop(self) -> None:
        self._parts = []
        if self._share is not None:
            self._share.end()
            self._share = None


def too_large(most: int) -> Unfit:
    return Unfit(413, f"the message is larger than {most} bytes")


def begun(
    visit: Visit, work: Coroutine[Any, Any, None], refuse: Callable[[Unfit], object] | None = None
) -> Callable[[], object]:
    """Runs it beside; Unfit is an answer, which is the end of the call unless `refuse` knows better. Returns what ends
    it."""
    refuse = refuse or visit.refuse

    async def run() -> None:
        try:
            await work
        except Unfit as unfit:
            refuse(unfit)
        except Exception:
            log.exception("failed to answer a call")
            refuse(Unfit(500, "internal error"))

    task = asyncio.ensure_future(run())

    def cancel() -> None:
        if task.cancel():
            visit.note(visit.opening.options.id, GONE)

    return cancel
