"""Ask a service of others whether it is there, and what it speaks: one connection for each question.

It is asked without any credentials, and no redirect is followed: who writes a graph decides what is connected to, and
must not be lent more by that than a connection and a few GETs. Of an answer only its first line is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Iterator
from typing import Final

from mizzen.controllers.graphs.facts import Probed, Question
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import Spoken

CONNECT: Final = 2.0
"""Seconds to wait for a connection."""
ANSWER: Final = 2.0
"""Seconds to wait for an answer on it."""
LONGEST_LINE: Final = 8192

_STATUS_LINE = re.compile(rb"HTTP/\S+ (\d{3})\b")
_OK: Final = 200
_UNAVAILABLE: Final = 503


async def ask(question: Question) -> Probed:
    """The first protocol that answers that it is ready. One that is there, and says it is not ready, is not yet; one
    that is there and tells nothing counts as ready, and speaks what it is said to, or v2."""
    waits = ""
    for protocol, path in _asked(question):
        try:
            status = await _status(question.address, path)
        except (OSError, TimeoutError) as error:
            return Probed(why=_trouble(error))
        if status == _OK:
            return Probed(protocol)
        if status == _UNAVAILABLE:
            waits = waits or f"{path} answers {status}"
    return Probed(why=f"it is not ready yet: {waits}") if waits else Probed(question.protocol or "v2")


def _asked(question: Question) -> Iterator[tuple[Spoken, str]]:
    paths: dict[Spoken, tuple[str, ...]] = {
        "v2": ("/v2/health/ready",),
        "v1": (f"/v1/models/{question.model}",),
        "seldon": ("/health/status", "/health/ping"),
    }
    for protocol, listed in paths.items():
        if question.protocol in (None, protocol):
            yield from ((protocol, path) for path in listed)


async def _status(address: Address, path: str) -> int:
    """Of the answer; 0 when it is no HTTP, or none comes. OSError, TimeoutError: nobody is there."""
    # In a thread: it reads all certificates that this machine trusts.
    tls = await asyncio.to_thread(ssl.create_default_context) if address.scheme == "https" else None
    async with asyncio.timeout(CONNECT):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls, limit=LONGEST_LINE)
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nConnection: close\r\n\r\n"
        async with asyncio.timeout(ANSWER):
            writer.write(request.encode("ascii"))
            await writer.drain()
            line = await reader.readline()
    except (OSError, TimeoutError, ValueError):  # the last: a line without end
        return 0
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER):
                await writer.wait_closed()
    found = _STATUS_LINE.match(line)
    return int(found[1]) if found is not None else 0


def _trouble(error: OSError | TimeoutError) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return f"no connection within {CONNECT:g} s"
    return error.strerror or str(error)
