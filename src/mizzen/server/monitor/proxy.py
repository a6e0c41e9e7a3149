"""Proxy between a browser and the monitoring tool, a process on this machine.

The tool never learns the caller's identity: it gets no token and no cookie of ours, and its own cookies are dropped. It
answers only the proxy, by a key that both read from a file (`tool_key`); no client has the key. Its pages run in the
browser under our origin, so they may connect to nothing but the tool itself (`connect-src`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import httpx2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from mizzen.errors import BadRequest, MizzenError, NotFound, TooLarge, Unavailable
from mizzen.kinds.monitor import SCALARS, page_path, tool_path
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import WorkloadStatus
from mizzen.server.http.context import context_of
from mizzen.server.http.request_bodies import read_bytes
from mizzen.server.http.streaming import until_stopped
from mizzen.server.monitor import lifecycle, sign_in, tool_key
from mizzen.server.monitor.sign_in import SignIn
from mizzen.stores.all_pages import workloads_of
from mizzen.stores.store import Store

MAX_REQUEST_BYTES: Final = 8 << 20
"""Requests of the tools' pages are small."""
MAX_RESPONSE_BYTES: Final = 1 << 30
"""Some tools offer all their data as one file."""
TIMEOUT: Final = httpx2.Timeout(60.0, connect=5.0)
MAX_PATH_BYTES: Final = 16 * 1024

HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
STRIPPED_REQUEST_HEADERS: Final = frozenset(
    {"authorization", "cookie", "host", "origin", "referer", "expect", "forwarded", tool_key.HEADER}
)
"""Request headers that identify the caller, and the key that only the proxy sends."""
STRIPPED_RESPONSE_HEADERS: Final = frozenset({
    "set-cookie", "server", "date", "location", "clear-site-data", "service-worker-allowed",
    "strict-transport-security", "refresh",
})  # fmt: skip
"""Response headers that would take effect for the whole origin."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d{1,5})")


async def proxy_request(request: Request, sign_ins: SignIn) -> Response:
    """Forward a request to the tool, after checking that the caller may read the monitor."""
    model = sign_in.model_in_path(request)
    ticket = request.query_params.get("ticket")
    try:
        if ticket is not None and request.method == "GET":
            return sign_ins.redeem(request, model, ticket)
        sign_in.require(request, model)
        if "path" not in request.path_params:
            return RedirectResponse(tool_path(model), 303)
        store = context_of(request).store
        monitor = await lifecycle.get_monitor(store, model)
        if monitor.status.get("tool") == SCALARS:
            return RedirectResponse(page_path(model), 303)
        key = await _read_key(context_of(request).data_dir)
        return await _forward(request, model, await _find_address(store, monitor), key)
    except MizzenError as error:
        return sign_in.respond_to_error(request, model, error)


async def _read_key(data_dir: Path) -> str:
    """The current key; the tool also reads it for each request. Raises Unavailable."""
    try:
        return await asyncio.to_thread(tool_key.read_or_create, data_dir / "run")
    except OSError as error:
        raise Unavailable(
            f"cannot read the key of the monitoring tool: {error.strerror}",
            hint="'mizzen down' and 'mizzen up' recreate the run folder",
        ) from error


async def _find_address(store: Store, monitor: Resource) -> str:
    """host:port of the ready process. Raises Unavailable."""
    for child in await workloads_of(store, monitor):
        for replica in WorkloadStatus.of(child).replicas if not child.deleting else ():
            match = _ADDRESS.fullmatch(replica.address)
            if match is not None and replica.state == "ready":
                return f"127.0.0.1:{match[1]}"
    conditions = monitor.status.get("conditions") or ()
    message = next((each.get("message") for each in conditions if each.get("type") == "Ready"), "")
    raise Unavailable(f"the tool is not ready yet: {message or 'it is starting'}")


async def _forward(request: Request, model: Ref, address: str, key: str) -> Response:
    path = _target_path(request)
    body = None if request.method in ("GET", "HEAD") else await read_bytes(request, MAX_REQUEST_BYTES, hint="")
    # One connection per request: a page makes a few dozen, and none is left to close when the plane stops.
    client = httpx2.AsyncClient(trust_env=False, verify=False, follow_redirects=False, timeout=TIMEOUT)
    try:
        url = httpx2.URL(scheme="http", host="127.0.0.1", port=int(address.partition(":")[2]), raw_path=path)
        outgoing = client.build_request(
            request.method, url, headers=_request_headers(request, address, key), content=body
        )
        answer = await client.send(outgoing, stream=True)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        await client.aclose()
        raise Unavailable(
            f"the tool did not answer: {type(error).__name__}",
            hint=f"'mizzen monitor show {model.name}' shows its state",
        ) from error
    except BaseException:
        await client.aclose()
        raise
    headers = _response_headers(request, model, address, answer.headers)
    streamed = until_stopped(_stream_content(client, answer), context_of(request).stopping)
    response = StreamingResponse(streamed, answer.status_code)
    response.raw_headers = headers
    return response


async def _stream_content(client: httpx2.AsyncClient, answer: httpx2.Response) -> AsyncIterator[bytes]:
    sent = 0
    try:
        async for piece in answer.aiter_raw():
            sent += len(piece)
            if sent > MAX_RESPONSE_BYTES:
                raise TooLarge(f"the tool sent more than {MAX_RESPONSE_BYTES:,} bytes")
            yield piece
    except httpx2.HTTPError as error:
        raise Unavailable(f"the tool closed the connection: {type(error).__name__}") from error
    finally:
        # Also after the client has disconnected; shielded, so that the connection does not stay open.
        await asyncio.shield(_close(client, answer))


async def _close(client: httpx2.AsyncClient, answer: httpx2.Response) -> None:
    await answer.aclose()
    await client.aclose()


def _target_path(request: Request) -> bytes:
    """The path as it came, with its query: the tool is configured to serve below the same path."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    if any(part in (".", "..") for part in request.path_params["path"].split("/")):
        raise NotFound("the tool has no such path")
    query = request.scope["query_string"]
    whole = bytes(path) + (b"?" + query if query else b"")
    if len(whole) > MAX_PATH_BYTES:
        raise BadRequest(f"the path is longer than {MAX_PATH_BYTES:,} bytes")
    return whole


def _request_headers(request: Request, address: str, key: str) -> list[tuple[bytes, bytes]]:
    stripped = (
        HOP_BY_HOP
        | STRIPPED_REQUEST_HEADERS
        | {"content-length"}
        | _connection_headers(request.headers.getlist("connection"))
    )
    passed = [
        (name, value)
        for name, value in request.headers.raw
        if (text := name.decode("latin-1").lower()) not in stripped and not text.startswith(("x-forwarded-", "sec-"))
    ]
    if all(name.lower() != b"accept-encoding" for name, _ in passed):
        # Otherwise our HTTP client would add its own, and the caller would get an encoding they did not accept.
        passed.append((b"accept-encoding", b"identity"))
    return [(b"host", address.encode()), (tool_key.HEADER.encode(), key.encode()), *passed]


def _response_headers(request: Request, model: Ref, address: str, headers: httpx2.Headers) -> list[tuple[bytes, bytes]]:
    stripped = HOP_BY_HOP | STRIPPED_RESPONSE_HEADERS | _connection_headers(headers.get_list("connection"))
    passed = [
        (name.lower(), value)
        for name, value in headers.raw
        if (text := name.decode("latin-1").lower()) not in stripped and not text.startswith("access-control-")
    ]
    onward = _redirect_location(headers.get("location"), address)
    if onward is not None:
        passed.append((b"location", onward.encode("latin-1", "replace")))
    # In addition to the tool's own policy: browsers enforce both.
    own = f"{sign_in.base_url(request)}{tool_path(model)}"
    policy = f"connect-src {own} blob: data:; frame-ancestors 'self'; base-uri 'self'"
    return [
        *passed,
        (b"content-security-policy", policy.encode("latin-1", "replace")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    ]


def _redirect_location(location: str | None, address: str) -> str | None:
    """The target of a redirect under our origin; None if there is none, or if it leads to another site."""
    if location is None:
        return None
    for own in (f"http://{address}", f"http://localhost:{address.partition(':')[2]}"):
        if location.startswith(f"{own}/"):
            return location.removeprefix(own)
    foreign = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2}|/\\", location)
    return None if foreign else location


def _connection_headers(connection: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for value in connection for name in value.split(","))
