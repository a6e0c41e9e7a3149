"""The calls of one service: each goes to the least busy of its addresses, over a connection that is kept for the next.

    waiting -- a connection is free --> out -- answered --> settled
       |                                 |
       +-- deadline, gone, nobody there -+-- deadline, gone: its connection is closed, which ends the work behind it

What finds no free connection waits in the order it came, while connections are made for it, up to a number for each
address. A call is not bound to an address before it is sent: whichever can take it first does.

Hazards kept in mind: a call ends once (`live`), and its end may bring the next call before it returns; a service may
close a connection just as it is used again, so what was lost then, and only then, is sent once more; of an address that
hangs, connections are closed one by one at deadlines, so it would look the least busy of all.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mizzen.gateway.inference.calls import BAD_REQUEST, EXPIRED, LATE, LOST, NOBODY, UNAVAILABLE, Call
from mizzen.gateway.inference.signature import Signature
from mizzen.gateway.queueing.deadline_timer import Sweeper
from mizzen.gateway.services import requests
from mizzen.gateway.services.call import Exchange
from mizzen.gateway.services.endpoint import Peer
from mizzen.gateway.services.endpoints import Peers
from mizzen.gateway.services.http_connection import Answer, Connection
from mizzen.gateway.services.response_mapping import SPEECHES, Outcome
from mizzen.graph import table_types

BODY_BYTES = 64 << 20
"""Of an answer."""
CONNECTIONS = 64
"""To one address."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What became of the calls of one service."""

    sent: int = 0
    retried: int = 0
    """Sent once more, because the first connection was closed as it was used again."""
    shed: int = 0
    gone: int = 0
    """Nobody waited any more."""
    opened: int = 0
    """Connections."""
    unreached: int = 0
    """Connections that could not be made."""
    ends: Counter[int] = field(default_factory=Counter)
    """Calls by the code they ended with."""
    seconds: float = 0.0
    """That answered calls were out, in all."""


class ServicePool:
    """A Caller (`graph/execute`), swept as queues are."""

    def __init__(
        self,
        service: table_types.Service,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        sweeper: Sweeper,
        limit: int,
        byte_limit: int = BODY_BYTES,
        body_limit: int = BODY_BYTES,
        connections: int = CONNECTIONS,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`limit`, `byte_limit`: calls that may wait for a connection. `body_limit`: bytes of one answer.
        `connections`: to one address. `tls`: whom it trusts whose address is https."""
        self.signature: Signature | None = None
        """What a service takes is not known before it is asked."""
        self.counts = Counts()
        self._clock = clock
        self._sweeper = sweeper
        self._limit = limit
        self._byte_limit = byte_limit
        self._peers = Peers(self, loop=loop, clock=clock, tls=tls, connections=connections, body_limit=body_limit)
        self._waiting: OrderedDict[Call, Exchange] = OrderedDict()
        self._waiting_bytes = 0
        self._out: dict[Call, Exchange] = {}
        """Sent, or about to be by a connection that is made for it alone."""
        self._events = 0
        """Grows with each event whose order matters: a clock may stand still."""
        self._pumping = self._retired = self._closed = False
        sweeper.queues.add(self)
        self.update(service)

    @property
    def ready(self) -> bool:
        """Some address did not just fail."""
        now = self._clock()
        return any(peer.resting_until <= now for peer in self._peers)

    @property
    def busy(self) -> int:
        return len(self._waiting) + len(self._out)

    @property
    def waiting(self) -> int:
        """Calls that wait for a connection."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._out)

    @property
    def unanswered(self) -> bytes:
        """What somebody is told whose time is over."""
        return f"{self._who} gave no answer within the deadline".encode()

    def submit(self, call: Call) -> None:
        if not self._admits(call):
            return
        self._events += 1
        self._waiting[call] = Exchange(call, self._events)
        self._waiting_bytes += call.size
        self._pump()
        if not self._sweeper.armed:
            self._sweeper.arm()

    def gone(self, call: Call) -> None:
        """Nobody waits for it any more: it is not sent, or whoever works on it sees the connection end."""
        exchange = self._waiting.get(call) or self._out.get(call)
        if exchange is not None:
            self.counts.gone += 1
            self._drop(exchange)
            self._pump()
            self._look_done()

    def update(self, service: table_types.Service) -> None:
        """The same service, with other addresses for example."""
        self.service = service
        self._who = f"'{_name(service.id)}'"
        self._speech = SPEECHES[service.protocol]
        self._peers.replace(service.addresses)
        self._starts = {peer.address: requests.opening(peer.host, service.path) for peer in self._peers}
        self._pump()

    def retire(self) -> None:
        """No Table names it any more. Whoever still has it may go on calling; connections are not kept for them."""
        self._retired = True
        self._look_done()

    async def abort(self) -> None:
        """Close all, whatever is owed."""
        self._retired = self._closed = True
        await self._peers.abort()
        text = f"{self._who} is called no more: this gateway ends".encode()
        for exchange in [*self._waiting.values(), *self._out.values()]:
            self._drop(exchange)
            self._settle(exchange.call, Outcome(LOST, text), self._clock())
        self._look_done()

    def sweep(self, now: float) -> None:
        for calls in (self._waiting, self._out):
            for exchange in [each for each in calls.values() if each.call.deadline <= now or not each.call.live]:
                self._expire(exchange, now)
        self._pump()
        self._look_done()

    # What connections report

    def opened(self, connection: Connection, exchange: Exchange | None) -> None:
        self.counts.opened += 1
        now = self._clock()
        if exchange is not None and self._out.get(exchange.call) is exchange:
            self._send(exchange, connection, now)
        else:  # whom it was made for may have ended meanwhile
            self._peers.keep(connection, now)
        self._pump()
        self._look_done()

    def unreachable(self, peer: Peer, exchange: Exchange | None) -> None:
        self.counts.unreached += 1
        self._events += 1
        peer.unreached = self._events
        self._note(peer, peer.why, self._clock())
        if exchange is not None and self._out.get(exchange.call) is exchange:
            self._release(exchange)
            self._waiting[exchange.call] = exchange  # another address may be there for it
            self._waiting.move_to_end(exchange.call, last=False)
            self._waiting_bytes += exchange.call.size
        self._pump()
        self._look_done()

    def answered(self, connection: Connection, answer: Answer) -> None:
        now = self._clock()
        peer: Peer = connection.peer
        exchange: Exchange = connection.exchange
        self._release(exchange)
        if answer.status == UNAVAILABLE:
            self._note(peer, "it answered 503", now)
        else:
            peer.answered(now)
        self._peers.keep(connection, now)
        self._pump()  # before the answer is read: the service works meanwhile
        self.counts.seconds += now - exchange.began
        self._settle(exchange.call, exchange.read(answer, self._who, now), now)
        self._look_done()

    def broke(self, connection: Connection, fault: str, *, begun: bool) -> None:
        peer: Peer = connection.peer
        exchange: Exchange = connection.exchange
        call = exchange.call
        self._release(exchange)
        if exchange.run is not None:
            exchange.run.lost()
        if connection.used > 1 and not begun and not exchange.retried and call.live and not self._closed:
            peer.close_idle()  # the others were left alone as long, most likely
            self.counts.retried += 1
            exchange.retried = True
            self._out[call] = exchange
            self._peers.open(peer, exchange)
            return
        now = self._clock()
        self._note(peer, fault or "its connection was lost", now)
        self._pump()
        text = f"{self._who} gave no proper answer: {fault}" if fault else f"the connection to {self._who} was lost"
        self._settle(call, Outcome(LOST, text.encode(errors="replace")), now)
        self._look_done()

    def left(self, connection: Connection) -> None:
        with suppress(ValueError):  # it was just taken
            connection.peer.idle.remove(connection)

    # Taking in

    def _admits(self, call: Call) -> bool:
        """What is not admitted has its answer."""
        if not self._peers or self._closed:
            self._refuse(call, self._missing())
            return False
        if self._retired:
            self._sweeper.queues.add(self)
        if self._is_full(call):
            for each in [each for each in self._waiting if not each.live]:
                self.gone(each)
            if self._is_full(call):
                self.counts.shed += 1
                text = f"too many calls of {self._who} wait already".encode()
                self._settle(call, Outcome(UNAVAILABLE, text), self._clock())
                return False
        return True

    def _is_full(self, call: Call) -> bool:
        waits = len(self._waiting)
        return waits > 0 and (waits >= self._limit or self._waiting_bytes + call.size > self._byte_limit)

    def _missing(self) -> str:
        return f"{self._who} cannot be called: {self.service.missing or 'it has no address'}"

    # Sending

    def _pump(self) -> None:
        """Send what can be sent, and see that there will be a connection for the rest."""
        if self._pumping:  # whoever does so goes on until nothing is left to do
            return
        self._pumping = True
        try:
            while self._waiting and self._pump_first():
                pass
        finally:
            self._pumping = False

    def _pump_first(self) -> bool:
        """Whether there may be more to do."""
        call, exchange = next(iter(self._waiting.items()))
        now = self._clock()
        if not call.live or call.deadline <= now:
            self._expire(exchange, now)
            return call not in self._waiting  # else others wait for it, with more time: at the next look
        peer = self._peers.choose(exchange, now)
        if peer is None:
            if self._out or self._peers.openings:
                return False
            self._release(exchange)
            why = [peer.why for peer in self._peers]
            self._refuse(call, f"{self._who} cannot be reached: {why[-1]}" if why else self._missing())
            return True
        connection = peer.take()
        if connection is not None:
            self._release(exchange)
            self._send(exchange, connection, now)
            return True
        if self._peers.openings >= len(self._waiting):
            return False
        self._peers.open(peer, None)
        return True

    def _send(self, exchange: Exchange, connection: Connection, now: float) -> None:
        call, peer = exchange.call, connection.peer
        try:
            exchange.write(self._speech)
        except ValueError as error:
            self._release(exchange)
            self._peers.keep(connection, now)
            self._settle(call, Outcome(BAD_REQUEST, str(error).encode(errors="replace")), now)
            return
        self._events += 1
        peer.used = self._events
        peer.busy += 1
        self._out[call] = exchange
        self.counts.sent += 1
        start = self._starts.get(peer.address) or requests.opening(peer.host, self.service.path)
        exchange.send(connection, start, self.service.id, now)

    # Ends

    def _expire(self, exchange: Exchange, now: float) -> None:
        """It is out of time, or nobody waits for it."""
        call, connection = exchange.call, exchange.connection
        self._settle(call, Outcome(EXPIRED, self.unanswered, lacking=LATE), now)
        if call.live:  # for others, who have more time
            return
        if connection is not None and call.deadline <= now and connection.peer.heard < exchange.began:
            self._note(connection.peer, "it does not answer", now)
        self._drop(exchange)

    def _drop(self, exchange: Exchange) -> None:
        """Nothing more is done for it."""
        connection = exchange.connection
        self._release(exchange)
        if connection is not None:
            connection.close()

    def _release(self, exchange: Exchange) -> None:
        """It waits no more, and is out no more."""
        call = exchange.call
        if self._waiting.pop(call, None) is not None:
            self._waiting_bytes -= call.size
        else:
            self._out.pop(call, None)
        if exchange.connection is not None:
            exchange.connection.peer.busy -= 1
            exchange.connection = None

    def _note(self, peer: Peer, why: str, now: float) -> None:
        if peer.failed(now, why):
            log.warning("service %s at %s fails: %s", self.service.id, peer.address, why)

    def _refuse(self, call: Call, text: str) -> None:
        self._settle(call, Outcome(UNAVAILABLE, text.encode(errors="replace"), lacking=NOBODY), self._clock())

    def _settle(self, call: Call, end: Outcome, now: float) -> None:
        if not call.live:
            self.counts.gone += 1
            return
        self.counts.ends[end.code] += 1
        if end.route is not None:
            with suppress(AttributeError):  # one that has no place for it did not ask
                call.route = end.route  # type: ignore[attr-defined]
        call.settle(end.code, end.payload, now, end.retry, lacking=end.lacking)

    def _look_done(self) -> None:
        """Of one that is retired nothing is left once nothing is owed."""
        if self._retired and not self.busy:
            self._peers.close_idle()
            self._sweeper.queues.discard(self)


def _name(id_: str) -> str:
    """What callers know it by: the container, or the host."""
    if id_.startswith("svc:"):
        return urlsplit(id_.removeprefix("svc:")).netloc.rpartition("@")[2] or id_
    return id_.rpartition("/")[2]
