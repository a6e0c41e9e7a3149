"""The middleware that lets each request wait for its turn.

A request takes part once its first bytes of the body have arrived. While the rest arrives, while a part of a response
is sent, and while a stream has nothing to send, others may use its slot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.access.policy import Actor
from mizzen.server.flow_control.execution import ClientGone, Execution
from mizzen.server.flow_control.limits import FlowControl, work_of
from mizzen.server.http.middleware import HttpMiddleware, respond_after

EXEMPT = frozenset({"/healthz", "/livez", "/readyz"})
"""Whether the plane is alive must be known even while it is busy."""
_WITHOUT_BODY = (204, 304)


class FlowControlMiddleware(HttpMiddleware):
    """Runs inside authentication, which says who the actor is, and outside everything that costs more."""

    def __init__(self, app: ASGIApp, control: FlowControl) -> None:
        super().__init__(app)
        self.control = control

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in EXEMPT:
            await self.app(scope, receive, send)
            return
        actor: Actor = scope["state"]["caller"].actor
        execution = Execution(self.control, actor, work_of(scope["method"]))
        scope["state"]["execution"] = execution
        body = _Body(receive, execution)
        try:
            if "expect" not in Headers(scope=scope):  # such a client sends nothing before it is asked to
                await body.read_first()
            await execution.begin(body.wait_disconnect if body.is_complete else None)
            await respond_after(self.app, scope, body.receive, _partly(execution, send), _start(execution))
        except ClientGone:
            return
        finally:
            execution.end()


class _Body:
    """The body of a request. Only the part that has not arrived is waited for, without a slot."""

    def __init__(self, receive: Receive, execution: Execution) -> None:
        self._receive = receive
        self._execution = execution
        self._first: Message | None = None
        self.is_complete = False

    async def read_first(self) -> None:
        """Does nothing for an actor with too many streams: its request waits later, in its slot."""
        if self._execution.open_stream():
            self._first = await self._read()
            self._execution.close_stream()

    async def receive(self) -> Message:
        message, self._first = self._first, None
        if message is not None:
            return message
        paused = not self.is_complete and self._execution.pause()
        message = await self._read()
        if paused:
            await self._execution.resume()
        return message

    async def wait_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _read(self) -> Message:
        message = await self._receive()
        self.is_complete = self.is_complete or not message.get("more_body", False)
        return message


def _start(execution: Execution) -> Callable[[Message], Awaitable[None]]:
    """A response of unknown length, such as a watch, is a stream. Else the work is done, except for sending it."""

    async def start(message: Message) -> None:
        has_body = message["status"] not in _WITHOUT_BODY
        if has_body and "content-length" not in Headers(raw=message.get("headers", [])):
            execution.detach()
        else:
            execution.release()

    return start


def _partly(execution: Execution, send: Send) -> Send:
    async def send_part(message: Message) -> None:
        if not message.get("more_body", False):
            execution.release()
            await send(message)
            return
        paused = execution.pause()
        await send(message)
        if paused:
            await execution.resume()

    return send_part
