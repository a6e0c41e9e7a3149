"""The context that all requests of one gateway process share: routes, authorizer, metrics, logs and clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from mizzen.access.policy import ANONYMOUS
from mizzen.gateway.access.audit_sampling import AuditSampler
from mizzen.gateway.access.authorizer import FORBIDDEN, PLANE, UNAUTHENTICATED, Authorizer, Credentials, RequestDecision
from mizzen.gateway.access.rate_limits import LimitExceeded
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.request.body_budget import BodyBudget
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.route_table import Routes
from mizzen.gateway.telemetry.access_log import AccessLog
from mizzen.gateway.telemetry.counters import Metrics
from mizzen.gateway.telemetry.trace_recording import Tracer


class KnownHead(NamedTuple):
    """The meaning of a head that is authorized, keeps the connection open and gives the length of its body."""

    endpoint: Endpoint
    length: int
    head: RequestHead
    until: float | None
    """When its token expires, in seconds since 1970."""


@dataclass(slots=True, eq=False, kw_only=True)
class GatewayContext:
    """Shared by all requests of one gateway process."""

    max_body_bytes: int
    intake: BodyBudget
    metrics: Metrics
    clock: Callable[[], float]
    """Monotonic."""
    wall: Callable[[], float]
    """Seconds since 1970."""
    new_id: Callable[[], bytes]
    permits: Authorizer
    refusals: RefusalLog
    access_log: AccessLog
    cors: Cors
    samples: AuditSampler | None = None
    """Samples predictions for the audit; None: no sampling."""
    tracer: Tracer | None = None
    """None if nothing is traced."""
    routes: Routes = field(default_factory=lambda: Routes(from_table=False))
    heads: dict[bytes, KnownHead] = field(default_factory=dict)
    """Authorized heads, byte for byte, as these routes and this authorizer judged them."""
    logged_from: int = field(init=False)
    """The lowest status code that has to be logged or traced; callers compare it before they call `log_request`."""

    def __post_init__(self) -> None:
        self.logged_from = self.access_log.min_code if self.tracer is None else 0

    def replace(self, *, routes: Routes | None = None, permits: Authorizer | None = None) -> None:
        """Put a new Table or access.json in force, and forget the heads judged by the old one."""
        self.routes = routes or self.routes
        self.permits = permits or self.permits
        self.heads.clear()

    def log_request(
        self, head: RequestHead, request_id: bytes, code: int, *, began: float, bytes_in: int, bytes_out: int,
        served: tuple[str, str, str] | None = None,
    ) -> None:  # fmt: skip
        """Log and trace a request that was answered, or whose client disconnected. `served`: namespace, name and
        version of the model that answered; None: none did."""
        now = self.clock()
        if self.tracer is not None:
            self.tracer.finish(
                head, request_id, code, began=began, now=now, bytes_in=bytes_in, bytes_out=bytes_out, served=served
            )
        if code >= self.access_log.min_code:
            self.access_log.note(
                head, request_id, code, seconds=now - began, bytes_in=bytes_in, bytes_out=bytes_out, served=served
            )

    def count_prediction(self, head: RequestHead) -> tuple[LimitExceeded | None, RequestHead]:
        """Count a prediction against the rate limit of its caller. Returns the excess, if any, and the head with the
        rate-limit headers for the response."""
        assert head.rate_limit is not None
        now = self.clock()
        excess = head.rate_limit.spend(now, self.wall())
        lines = head.rate_limit.header_lines(now) if excess is None else excess.header_lines
        return excess, head._replace(response_headers=head.response_headers + lines)

    def note_refusal(self, asked: AuthRequest, decision: RequestDecision) -> None:
        """Write a refusal to the audit; other decisions are ignored."""
        if decision.code not in (UNAUTHENTICATED, FORBIDDEN):
            return
        target = PLANE if decision.verb == "authenticate" else decision.target
        self.refusals.note(
            decision.code, decision.reason, actor=decision.actor, verb=decision.verb, kind=target.kind,
            namespace=target.namespace, name=target.name, method=asked.method, path=asked.path,
        )  # fmt: skip

    def note_foreign(self, asked: AuthRequest, reason: str) -> None:
        """Write to the audit that a request was refused for its origin, before authentication."""
        self.note_refusal(asked, RequestDecision(FORBIDDEN, reason, ANONYMOUS.name, "authenticate", PLANE))


class AuthRequest(NamedTuple):
    """The parts of a request that authorization needs."""

    method: str
    path: str
    credentials: Credentials
