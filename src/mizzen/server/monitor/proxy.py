"""Between a browser and the tool: what one asks is asked of the process on this machine, and what that says is told.

The tool never sees who asks: no token and no cookie of ours reaches it, and none of its own gets out. It answers us
only, by a key that both of us read in a file (`showkey`); no client has it. What it sends runs in the browser under our
address: so its pages may ask nothing but the tool itself (`connect-src`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import httpx2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from mizzen.errors import BadRequest, MizzenError, NotFound, TooLarge, Unavailable
from mizzen.kinds.monitor import SCALARS, page_path, tool_path
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import WorkloadStatus
from mizzen.server.http.context import plane_of
from mizzen.server.http.streaming import until_stopped
from mizzen.server.monitor import lifecycle, sign_in, tool_key
from mizzen.server.monitor.sign_in import Entrance
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store, Where

MOST_SENT: Final = 8 << 20
"""Bytes of a request's body: tools ask with little."""
MOST_TOLD: Final = 1 << 30
"""Bytes of an answer: some hand out all they have read as one file."""
TIMEOUT: Final = httpx2.Timeout(60.0, connect=5.0)
LONGEST_PATH: Final = 16 * 1024

HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
OURS: Final = frozenset(
    {"authorization", "cookie", "host", "origin", "referer", "expect", "forwarded", tool_key.HEADER}
)
"""Of a request: who asks, and from where. And what only we say."""
THEIRS: Final = frozenset({"set-cookie", "server", "date", "location", "clear-site-data", "service-worker-allowed",
                           "strict-transport-security", "refresh"})  # fmt: skip
"""Of an answer: what would speak for this whole address."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d{1,5})")


async def shown(request: Request, entrance: Entrance) -> Response:
    """What the tool says, once whoever asks is known to be allowed to hear it."""
    model = sign_in.place(request)
    ticket = request.query_params.get("ticket")
    try:
        if ticket is not None and request.method == "GET":
            return entrance.redeem(request, model, ticket)
        sign_in.require(request, model)
        if "path" not in request.path_params:
            return RedirectResponse(tool_path(model), 303)
        store = plane_of(request).store
        monitor = await lifecycle.there(store, model)
        if monitor.status.get("tool") == SCALARS:
            return RedirectResponse(page_path(model), 303)
        key = await _key(plane_of(request).data_dir)
        return await _passed(request, model, await _address(store, monitor), key)
    except MizzenError as error:
        return sign_in.answered(request, model, error)


async def _key(data_dir: Path) -> str:
    """As it is now: a tool reads it for each question, too. Unavailable."""
    try:
        return await asyncio.to_thread(tool_key.kept, data_dir / "run")
    except OSError as error:
        raise Unavailable(
            f"the key that the tool asks for cannot be read: {error.strerror}",
            hint="'mizzen down' and 'mizzen up' make the folder of running things anew",
        ) from error


async def _address(store: Store, monitor: Resource) -> str:
    """host:port of the process that answers. Unavailable."""
    children = await whole(store, "Workload", Where(namespace=monitor.meta.namespace, owner=monitor.meta.uid))
    for child in children:
        for replica in WorkloadStatus.of(child).replicas if not child.deleting else ():
            match = _ADDRESS.fullmatch(replica.address)
            if match is not None and replica.state == "ready":
                return f"127.0.0.1:{match[1]}"
    conditions = monitor.status.get("conditions") or ()
    said = next((each.get("message") for each in conditions if each.get("type") == "Ready"), "")
    raise Unavailable(f"the tool does not answer yet: {said or 'it is being started'}")


async def _passed(request: Request, model: Ref, address: str, key: str) -> Response:
    path = _path(request)
    body = await _body(request)
    # One connection for each question: a page asks a few dozen, and nothing is left to be closed when the plane stops.
    client = httpx2.AsyncClient(trust_env=False, verify=False, follow_redirects=False, timeout=TIMEOUT)
    try:
        url = httpx2.URL(scheme="http", host="127.0.0.1", port=int(address.partition(":")[2]), raw_path=path)
        asked = client.build_request(request.method, url, headers=_asked(request, address, key), content=body)
        answer = await client.send(asked, stream=True)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        await client.aclose()
        raise Unavailable(
            f"the tool did not answer: {type(error).__name__}",
            hint=f"'mizzen monitor show {model.name}' says how it is",
        ) from error
    except BaseException:
        await client.aclose()
        raise
    headers = _told(request, model, address, answer.headers)
    streamed = until_stopped(_content(client, answer), plane_of(request).stopping)
    told = StreamingResponse(streamed, answer.status_code)
    told.raw_headers = headers
    return told


async def _content(client: httpx2.AsyncClient, answer: httpx2.Response) -> AsyncIterator[bytes]:
    told = 0
    try:
        async for piece in answer.aiter_raw():
            told += len(piece)
            if told > MOST_TOLD:
                raise TooLarge(f"the tool told more than {MOST_TOLD:,} bytes")
            yield piece
    except httpx2.HTTPError as error:
        raise Unavailable(f"the tool broke off: {type(error).__name__}") from error
    finally:
        # Also when whoever asked has left: shielded, so that the connection does not stay open.
        await asyncio.shield(_close(client, answer))


async def _close(client: httpx2.AsyncClient, answer: httpx2.Response) -> None:
    await answer.aclose()
    await client.aclose()


def _path(request: Request) -> bytes:
    """As it came, with its query: the tool was told to answer below the same path."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    if any(part in (".", "..") for part in request.path_params["path"].split("/")):
        raise NotFound("no such path of the tool")
    query = request.scope["query_string"]
    whole = bytes(path) + (b"?" + query if query else b"")
    if len(whole) > LONGEST_PATH:
        raise BadRequest(f"the path is longer than {LONGEST_PATH:,} bytes")
    return whole


async def _body(request: Request) -> bytes | None:
    if request.method in ("GET", "HEAD"):
        return None
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > MOST_SENT:
                raise TooLarge(f"the body has more than {MOST_SENT:,} bytes")
            pieces.append(piece)
    except ClientDisconnect as error:
        raise BadRequest("the connection ended before the body did") from error
    return b"".join(pieces)


def _asked(request: Request, address: str, key: str) -> list[tuple[bytes, bytes]]:
    left_out = HOP_BY_HOP | OURS | {"content-length"} | _named(request.headers.getlist("connection"))
    kept = [
        (name, value)
        for name, value in request.headers.raw
        if (text := name.decode("latin-1").lower()) not in left_out and not text.startswith(("x-forwarded-", "sec-"))
    ]
    if all(name.lower() != b"accept-encoding" for name, _ in kept):
        # Else our client would say what it takes, and whoever asked would get that.
        kept.append((b"accept-encoding", b"identity"))
    return [(b"host", address.encode()), (tool_key.HEADER.encode(), key.encode()), *kept]


def _told(request: Request, model: Ref, address: str, headers: httpx2.Headers) -> list[tuple[bytes, bytes]]:
    left_out = HOP_BY_HOP | THEIRS | _named(headers.get_list("connection"))
    kept = [
        (name.lower(), value)
        for name, value in headers.raw
        if (text := name.decode("latin-1").lower()) not in left_out and not text.startswith("access-control-")
    ]
    onward = _onward(headers.get("location"), address)
    if onward is not None:
        kept.append((b"location", onward.encode("latin-1", "replace")))
    # Beside what the tool says itself: browsers keep to both.
    policy = (
        f"connect-src {sign_in.base(request)}{tool_path(model)} blob: data:; frame-ancestors 'self'; base-uri 'self'"
    )
    return [
        *kept,
        (b"content-security-policy", policy.encode("latin-1", "replace")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    ]


def _onward(location: str | None, address: str) -> str | None:
    """Where a redirect leads under our address; None: there is none, or it leads elsewhere."""
    if location is None:
        return None
    for own in (f"http://{address}", f"http://localhost:{address.partition(':')[2]}"):
        if location.startswith(f"{own}/"):
            return location.removeprefix(own)
    foreign = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2}|/\\", location)
    return None if foreign else location


def _named(connection: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for value in connection for name in value.split(","))
