"""What an inference request is, whichever way it came in: how it starts, how long it may take, how its answer reads.

`front` and `app` derive from `Inference` and say only how bytes get back to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mizzen.access.policy import ANONYMOUS
from mizzen.gateway.access.authorizer import FORBIDDEN, PLANE, UNAUTHENTICATED, Credentials, Permits, Ruling
from mizzen.gateway.access.rate_limits import Excess
from mizzen.gateway.access.refusal_log import Refusals
from mizzen.gateway.cache.cached_queue import HIT, Cached
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, UNAVAILABLE, Placed
from mizzen.gateway.inference.protocols import JSON, RETRY, Dialect, Options
from mizzen.gateway.request.body_budget import Intake
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.route_table import Endpoint, Routes
from mizzen.gateway.telemetry.access_log import AccessLog
from mizzen.gateway.telemetry.metrics import GONE, Metrics
from mizzen.gateway.telemetry.trace_recording import Tracer
from mizzen.protocol import v2

if TYPE_CHECKING:
    from mizzen.gateway.access.audit_sampling import Samples
    from mizzen.gateway.feedback.record_keeper import Members
    from mizzen.gateway.inference.response_parameters import Notes

_HIT = JSON + HIT


class KnownHead(NamedTuple):
    """What a head amounts to that is allowed, keeps the connection open and says how long its body is."""

    endpoint: Endpoint
    length: int
    options: Options
    until: float | None
    """When the token in it ends, in seconds since 1970."""


class Service:
    """What all requests of one gateway process share."""

    __slots__ = (
        "access_log", "clock", "cors", "heads", "intake", "max_body_bytes", "metrics", "new_id", "noted_from",
        "permits", "refusals", "routes", "samples", "tracer", "wall",
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_body_bytes: int,
        intake: Intake,
        metrics: Metrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
        new_id: Callable[[], bytes],
        permits: Permits,
        refusals: Refusals,
        access_log: AccessLog,
        cors: Cors,
        samples: Samples | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`clock` measures, `wall` tells the time: seconds since 1970. `tracer`: None when nothing is traced."""
        self.routes = Routes(from_table=False)
        self.permits = permits
        self.heads: dict[bytes, KnownHead] = {}
        """Heads of requests that were judged by these routes and permits, byte for byte."""
        self.refusals = refusals
        self.access_log = access_log
        self.cors = cors
        self.samples = samples
        """Who chooses predictions for the audit; None: none are."""
        self.tracer = tracer
        self.noted_from = access_log.least if tracer is None else 0
        """The lowest code of an answer that has to be noted; whoever answers compares it first."""
        self.wall = wall
        self.max_body_bytes = max_body_bytes
        self.intake = intake
        self.metrics = metrics
        self.clock = clock
        self.new_id = new_id

    def replace(self, *, routes: Routes | None = None, permits: Permits | None = None) -> None:
        """A new Table has come, or a new access.json. What was judged by the old one is forgotten."""
        self.routes = routes or self.routes
        self.permits = permits or self.permits
        self.heads.clear()

    def ended(
        self, options: Options, request_id: bytes, code: int, *, began: float, bytes_in: int, bytes_out: int,
        served: tuple[str, str, str] | None = None,
    ) -> None:  # fmt: skip
        """A request was answered, or its client has left: for the access log and for who traces it. `served`:
        namespace, name and version of what answered; None: nothing did."""
        now = self.clock()
        if self.tracer is not None:
            self.tracer.ended(
                options, request_id, code, began=began, now=now, bytes_in=bytes_in, bytes_out=bytes_out, served=served
            )
        if code >= self.access_log.least:
            self.access_log.note(
                options, request_id, code, seconds=now - began, bytes_in=bytes_in, bytes_out=bytes_out, served=served
            )

    def spend(self, options: Options) -> tuple[Excess | None, Options]:
        """Count one more prediction of somebody who is limited: whether it is too many, and what they are told with
        whatever is answered."""
        assert options.allowance is not None
        now = self.clock()
        excess = options.allowance.spend(now, self.wall())
        lines = options.allowance.lines(now) if excess is None else excess.lines
        return excess, options._replace(more=options.more + lines)

    def note(self, asked: Asked, ruling: Ruling) -> None:
        """For the audit, when it is a refusal."""
        if ruling.code not in (UNAUTHENTICATED, FORBIDDEN):
            return
        target = PLANE if ruling.verb == "authenticate" else ruling.target
        self.refusals.note(
            ruling.code, ruling.reason, actor=ruling.actor, verb=ruling.verb, kind=target.kind,
            namespace=target.namespace, name=target.name, method=asked.method, path=asked.path,
        )  # fmt: skip

    def note_foreign(self, asked: Asked, reason: str) -> None:
        """A request that was refused for where it came from, before anybody asked whose it was."""
        self.note(asked, Ruling(FORBIDDEN, reason, ANONYMOUS.name, "authenticate", PLANE))


class Asked(NamedTuple):
    """A request, as far as it matters who sent it, and where to."""

    method: str
    path: str
    credentials: Credentials


class Inference(Placed):
    """One inference request. It ends once: with `reply`, or silently when it is cancelled."""

    __slots__ = ("dialect", "errands", "id_json", "members", "named", "notes", "plain", "sample", "seconds", "user")

    dialect: Dialect
    id_json: bytes
    errands: int
    """Calls that were made for it, in graphs within graphs."""
    members: Members
    """What an ensemble made its answer of, where records are kept."""
    named: bool
    """Its caller has said what it is called."""
    notes: Notes | None
    """What is told, and noted, with the answer."""
    user: str
    """Whom it is for, where a graph may go by that."""
    plain: bool
    """It is answered as nearly all are, in V2 and JSON: then nobody else is asked how."""
    seconds: float
    """How long it may take."""

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        """Get the answer to the client. Called once at most. `kind` is the header lines that say what it is."""
        raise NotImplementedError

    def start(self, service: Service, endpoint: Endpoint, body: bytes, options: Options) -> None:
        """The answer, also to a bad request, comes through `reply`."""
        cache = endpoint.cache
        if cache is not None and service.tracer is None and self._is_known(cache, service, endpoint, body, options):
            return
        self.endpoint = endpoint
        self.dialect = endpoint.dialect
        self.seconds = endpoint.timeout
        self.notes = endpoint.notes
        self.named = True
        self.members = ()
        self.errands = 0
        self.work = None
        self.live = True
        self.alone = False
        self.id = b""
        if service.tracer is not None:
            options = service.tracer.begun(options)
        self.options = options
        self.size = len(body)
        self.began = service.clock()
        endpoint.counters.in_flight += 1
        try:
            self.dialect.read(self, service, body, options)
        except ValueError as fault:
            self.id = self.id or options.id or service.new_id()
            self.settle(BAD_REQUEST, str(fault).encode(), service.clock())
            return
        self.deadline = self.began + self.seconds
        endpoint.submit(self)
        if cache is not None and self.plain and not self.live:
            cache.know(body, options)

    def _is_known(self, cache: Cached, service: Service, endpoint: Endpoint, body: bytes, options: Options) -> bool:
        """Whether it was answered at once, as one that is like it byte for byte was."""
        payload = cache.known(body, options)
        if payload is None:
            return False
        self.endpoint = endpoint
        self.live = False
        self.options = options
        self.size = len(body)
        self.began = service.clock()
        self.id = options.id or service.new_id()
        id_json = b'"%b"' % self.id if not options.id else v2.to_json(options.id.decode())
        endpoint.counters.in_flight += 1
        endpoint.counters.ended(OK, 0.0)
        self.reply(OK, v2.answer(endpoint.head, id_json, payload), _HIT)
        return True

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if not self.live:
            return
        if code != OK:
            self._fail(code, payload, now, retry, lacking)
            return
        self.live = False
        self.item = None
        endpoint, notes = self.endpoint, self.notes
        endpoint.counters.ended(OK, now - self.began)
        if notes is not None:
            notes.answered(self, payload, now)
            if self.plain:
                self.reply(OK, v2.answer(endpoint.head, self.id_json + notes.json, payload))
                return
        elif self.plain:
            self.reply(OK, v2.answer(endpoint.head, self.id_json, payload))
            return
        self.reply(OK, *self.dialect.answer(self, payload))

    def found(self, payload: bytes, now: float, mark: bytes) -> None:
        self.live = False
        self.item = None
        endpoint, notes = self.endpoint, self.notes
        endpoint.counters.ended(OK, now - self.began)
        if notes is not None:
            notes.answered(self, payload, now)
        if self.plain:
            said = self.id_json if notes is None else self.id_json + notes.json
            self.reply(OK, v2.answer(endpoint.head, said, payload), JSON + mark)
        else:
            body, kind = self.dialect.answer(self, payload)
            self.reply(OK, body, kind + mark)

    def cancel(self, now: float) -> None:
        if self.live:
            self.live = False
            self.item = None
            self.endpoint.counters.ended(GONE, now - self.began)
            if self.notes is not None:
                self.notes.left(self, now)
            if self.work is not None:
                self.work.abandon()

    def _fail(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self.live = False
        if self.notes is not None:
            code, payload = self.notes.failed(self, code, payload, now)
        counters, default = self.endpoint.counters, self.endpoint.default
        answer = self.dialect.default(self, default, lacking) if default is not None and lacking else None
        self.item = None
        if answer is not None:
            counters.defaults[lacking] += 1
            counters.ended(OK, now - self.began)
            self.reply(OK, *answer)
            return
        counters.ended(code, now - self.began)
        kind = RETRY % retry if code == UNAVAILABLE and retry else JSON
        self.reply(code, v2.error(payload.decode(errors="replace")), kind)

    def move(self, endpoint: Endpoint) -> None:
        if self.notes is not None:
            self.notes.moved()
            self.notes = endpoint.notes
        self.endpoint.counters.in_flight -= 1
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)
