"""The HTTP probe of an external service: whether it is available, and its protocol. One connection per request.

The probe sends no credentials and follows no redirects: the author of a graph chooses the address, and must not gain
more by it than a connection and a few GETs. Only the first line of a response is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Iterator
from typing import Final

from mizzen.controllers.graphs.facts import ProbeRequest, ProbeResult
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import WireProtocol

CONNECT_TIMEOUT: Final = 2.0
"""Seconds to wait for a connection."""
RESPONSE_TIMEOUT: Final = 2.0
"""Seconds to wait for a response on it."""
MAX_LINE: Final = 8192

_STATUS_LINE = re.compile(rb"HTTP/\S+ (\d{3})\b")
_OK: Final = 200
_UNAVAILABLE: Final = 503


async def check(question: ProbeRequest) -> ProbeResult:
    """The first protocol that reports ready. A service that reports not ready (503) is not ready yet. A service that
    accepts connections but reports nothing counts as ready, with the protocol in the spec or v2."""
    waits = ""
    for protocol, path in _list_paths(question):
        try:
            status = await _get_status(question.address, path)
        except (OSError, TimeoutError) as error:
            return ProbeResult(why=_describe_error(error))
        if status == _OK:
            return ProbeResult(protocol)
        if status == _UNAVAILABLE:
            waits = waits or f"{path} returned {status}"
    return ProbeResult(why=f"not ready yet: {waits}") if waits else ProbeResult(question.protocol or "v2")


def _list_paths(question: ProbeRequest) -> Iterator[tuple[WireProtocol, str]]:
    paths: dict[WireProtocol, tuple[str, ...]] = {
        "v2": ("/v2/health/ready",),
        "v1": (f"/v1/models/{question.model}",),
        "seldon": ("/health/status", "/health/ping"),
    }
    for protocol, listed in paths.items():
        if question.protocol in (None, protocol):
            yield from ((protocol, path) for path in listed)


async def _get_status(address: Address, path: str) -> int:
    """The status of the response; 0 when it is not HTTP, or none comes. OSError, TimeoutError: no connection."""
    # In a thread: this reads all certificates that this machine trusts.
    tls = await asyncio.to_thread(ssl.create_default_context) if address.scheme == "https" else None
    async with asyncio.timeout(CONNECT_TIMEOUT):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls, limit=MAX_LINE)
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nConnection: close\r\n\r\n"
        async with asyncio.timeout(RESPONSE_TIMEOUT):
            writer.write(request.encode("ascii"))
            await writer.drain()
            line = await reader.readline()
    except (OSError, TimeoutError, ValueError):  # the last: the line is too long
        return 0
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                await writer.wait_closed()
    found = _STATUS_LINE.match(line)
    return int(found[1]) if found is not None else 0


def _describe_error(error: OSError | TimeoutError) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return f"no connection within {CONNECT_TIMEOUT:g} s"
    return error.strerror or str(error)
