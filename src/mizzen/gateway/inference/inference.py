"""An inference request, whichever protocol carried it: its start, its deadline and its end.

The classes that derive from `Inference`, in `gateway.http` and `gateway.grpc`, only deliver the answer to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mizzen.gateway.access.audit_sampling import AuditSampler
from mizzen.gateway.cache.cached_queue import HIT, CachedQueue
from mizzen.gateway.inference.endpoint import Endpoint, InferenceCall
from mizzen.gateway.inference.protocols import JSON, RETRY
from mizzen.gateway.queueing.call import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.telemetry.counters import GONE
from mizzen.gateway.telemetry.trace_recording import Tracer
from mizzen.protocol import v2

_HIT = JSON + HIT


class InferenceContext(Protocol):
    """What an inference needs of its gateway (`gateway.context`)."""

    samples: AuditSampler | None
    tracer: Tracer | None

    @property
    def clock(self) -> Callable[[], float]: ...

    @property
    def new_id(self) -> Callable[[], bytes]: ...


class Inference(InferenceCall):
    """One inference request. It ends once: with `reply`, or silently when it is cancelled.

    It is created without a request, because its connection must know it before it can end. `start` or `end_early` sets
    its fields.
    """

    __slots__ = ("sample",)

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        """Deliver the answer to the client. Called at most once. `kind`: header lines that describe the body."""
        raise NotImplementedError

    def start(self, service: InferenceContext, endpoint: Endpoint, body: bytes, head: RequestHead) -> None:
        """Read the body and submit the call. The answer comes through `reply`, also to a bad request."""
        cache = endpoint.cache
        if cache is not None and service.tracer is None and self._is_known(cache, service, endpoint, body, head):
            return
        if service.tracer is not None:
            head = service.tracer.start(head)
        self.reset(endpoint, head, len(body), service.clock())
        endpoint.counters.in_flight += 1
        try:
            self.codec.read(self, body, head)
        except ValueError as fault:
            self.id = self.id or head.id or service.new_id()
            self.finish(BAD_REQUEST, str(fault).encode(), service.clock())
            return
        self.deadline = self.began + self.seconds
        endpoint.submit(self)
        if cache is not None and self.plain and not self.pending:
            cache.remember_body(body, head)

    def _is_known(
        self, cache: CachedQueue, service: InferenceContext, endpoint: Endpoint, body: bytes, head: RequestHead
    ) -> bool:
        """Whether it was answered from the cache, as an earlier request with an identical body."""
        payload = cache.find_by_body(body, head)
        if payload is None:
            return False
        self.endpoint = endpoint
        self.end_early(head, head.id or service.new_id(), len(body), service.clock())
        id_json = b'"%b"' % self.id if not head.id else v2.to_json(head.id.decode())
        endpoint.counters.in_flight += 1
        endpoint.counters.record_end(OK, 0.0)
        self.reply(OK, v2.render_answer(endpoint.response_prefix, id_json, payload), _HIT)
        return True

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if not self.pending:
            return
        if code != OK:
            self._fail(code, payload, now, retry, lacking)
            return
        self.pending = False
        self.item = None
        endpoint, notes = self.endpoint, self.notes
        endpoint.counters.record_end(OK, now - self.began)
        if notes is not None:
            notes.on_answer(self, payload, now)
            if self.plain:
                self.reply(OK, v2.render_answer(endpoint.response_prefix, self.id_json + notes.json, payload))
                return
        elif self.plain:
            self.reply(OK, v2.render_answer(endpoint.response_prefix, self.id_json, payload))
            return
        self.reply(OK, *self.codec.answer(self, payload))

    def finish_from_cache(self, payload: bytes, now: float, mark: bytes) -> None:
        self.pending = False
        self.item = None
        endpoint, notes = self.endpoint, self.notes
        endpoint.counters.record_end(OK, now - self.began)
        if notes is not None:
            notes.on_answer(self, payload, now)
        if self.plain:
            id_json = self.id_json if notes is None else self.id_json + notes.json
            self.reply(OK, v2.render_answer(endpoint.response_prefix, id_json, payload), JSON + mark)
        else:
            body, kind = self.codec.answer(self, payload)
            self.reply(OK, body, kind + mark)

    def cancel(self, now: float) -> None:
        if self.pending:
            self.pending = False
            self.item = None
            self.endpoint.counters.record_end(GONE, now - self.began)
            if self.notes is not None:
                self.notes.on_cancel(self, now)
            if self.work is not None:
                self.work.abandon()

    def _fail(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self.pending = False
        if self.notes is not None:
            code, payload = self.notes.on_failure(self, code, payload, now)
        counters, default = self.endpoint.counters, self.endpoint.default
        answer = self.codec.default(self, default, lacking) if default is not None and lacking else None
        self.item = None
        if answer is not None:
            counters.defaults[lacking] += 1
            counters.record_end(OK, now - self.began)
            self.reply(OK, *answer)
            return
        counters.record_end(code, now - self.began)
        kind = RETRY % retry if code == UNAVAILABLE and retry else JSON
        self.reply(code, v2.render_error(payload.decode(errors="replace")), kind)

    def move(self, endpoint: Endpoint) -> None:
        if self.notes is not None:
            self.notes.on_move()
            self.notes = endpoint.notes
        self.endpoint.counters.in_flight -= 1
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)
