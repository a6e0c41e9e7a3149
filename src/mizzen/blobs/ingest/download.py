"""Downloads over http(s): streamed into a spool, hashed, and resumed when the connection breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx2

from mizzen.blobs.fs.cancellable_thread import in_thread
from mizzen.blobs.fs.content import CHUNK
from mizzen.blobs.ingest import private_addresses
from mizzen.blobs.ingest.spool import Spool
from mizzen.errors import Fault, Invalid

MOST_REDIRECTS: Final = 5
ATTEMPTS: Final = 6
DEADLINE: Final = 3600.0
"""Seconds for all attempts together. The retry count includes only consecutive attempts without progress."""
_SILENCE = 30.0
_LONGEST_PAUSE = 8.0
_WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
FIELD = "downloadURL"


@dataclass(frozen=True, slots=True)
class DownloadPolicy:
    private: bool
    """Whether requests to private addresses are allowed."""
    pause: float = 0.5
    """Seconds before the first retry; doubles with each further one."""


Report = Callable[[int, int | None], None]
"""Called with the bytes received and the total, if the server sends it. A smaller number means a restart."""


async def fetch(
    url: str, spool: Spool, sha256: str | None, policy: DownloadPolicy, report: Report = lambda _done, _total: None
) -> None:
    """Downloads `url` into the spool. Raises Invalid, with a precise fault, if that fails or is not `sha256`.

    Raises TooLarge and Unavailable as the spool does. Reports progress about once per megabyte.
    """
    check_url(url)
    try:
        async with asyncio.timeout(DEADLINE), _client() as client:
            await _with_retries(client, url, spool, _Progress(report), policy)
    except TimeoutError as error:
        raise _fault(f"took longer than {DEADLINE:g} s") from error
    digest = spool.digest.removeprefix("sha256:")
    if sha256 is not None and digest != sha256:
        fault = Fault("sha256sum", f"{redact_url(url)} has the sha256 {digest}, not {sha256}")
        raise Invalid.of("the version", (fault,))


def check_url(url: str) -> httpx2.URL:
    """Raises Invalid unless it is a valid http(s) URL."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        raise _fault(f"is not a valid URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _fault("must be http://… or https://…; only an admin may use file:///… of the plane's machine")
    return parsed


def redact_url(url: str) -> str:
    """Returns the URL without credentials. Any query value may be one."""
    try:
        parsed = httpx2.URL(url).copy_with(username=None, password=None, fragment=None)
        if not parsed.query:
            return str(parsed)
        names = (part.partition(b"=") for part in parsed.query.split(b"&"))
        masked = b"&".join(b"%s=***" % name if equals else b"***" for name, equals, _ in names)
        return str(parsed.copy_with(query=masked))
    except (httpx2.InvalidURL, ValueError, TypeError):
        return "the URL"


@dataclass(slots=True)
class _Progress:
    """State of a partial download."""

    report: Report
    validator: str = ""
    """The value for If-Range: a strong ETag or the date; empty if the server sent neither."""


async def _with_retries(
    client: httpx2.AsyncClient, url: str, spool: Spool, progress: _Progress, policy: DownloadPolicy
) -> None:
    best, left, pause = 0, ATTEMPTS, policy.pause
    while True:
        try:
            await _once(client, url, spool, progress, policy)
        except (httpx2.TransportError, _TryAgain) as error:
            left -= 1
            if spool.size > best:  # progress, if slow; the deadline bounds it
                best, left, pause = spool.size, ATTEMPTS, policy.pause
            if not left:
                message = str(error) or type(error).__name__
                raise _fault(f"cannot be fetched after {ATTEMPTS} attempts: {message}") from error
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _once(
    client: httpx2.AsyncClient, url: str, spool: Spool, progress: _Progress, policy: DownloadPolicy
) -> None:
    headers = {}
    if spool.size and progress.validator:
        headers = {"range": f"bytes={spool.size}-", "if-range": progress.validator}
    elif spool.size:
        await asyncio.to_thread(spool.restart)
    async with _final(client, url, headers, policy) as response:
        if response.status_code in _WORTH_A_RETRY:
            raise _TryAgain(f"the server responds with {response.status_code}")
        resumes = response.status_code == 206 and _begins(response) == spool.size
        if response.status_code != 200 and not resumes:
            if headers:  # cannot resume; restart from the beginning
                progress.validator = ""
                raise _TryAgain(f"the server responds with {response.status_code} to a range request")
            raise _fault(f"the server responds with {response.status_code} {response.reason_phrase}".strip())
        if not resumes:
            await asyncio.to_thread(spool.restart)
            progress.validator = _validator(response)
        length = response.headers.get("content-length", "")
        total = spool.size + int(length) if length.isdecimal() else None
        await _write_body(response, spool, lambda: progress.report(spool.size, total))
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _fault("the server compresses the response, although the request forbids that")


async def _write_body(response: httpx2.Response, spool: Spool, report: Callable[[], None]) -> None:
    """Writes the body, also if it breaks off, in chunks large enough to be worth a thread."""
    gathered = bytearray()
    try:
        async for chunk in response.aiter_raw():
            gathered += chunk
            if len(gathered) >= CHUNK:
                await in_thread(lambda _, data: spool.write(data), bytes(gathered))
                gathered.clear()
                report()
    finally:
        spool.write(bytes(gathered))
    report()


@asynccontextmanager
async def _final(
    client: httpx2.AsyncClient, url: str, headers: dict[str, str], policy: DownloadPolicy
) -> AsyncIterator[httpx2.Response]:
    """Returns the response after all redirects. Each hop is checked like the first."""
    here = check_url(url)
    credentials, origin = _basic(here), _origin(here)
    for _ in range(MOST_REDIRECTS + 1):
        sent = headers | ({"authorization": credentials} if credentials and _origin(here) == origin else {})
        response = await _ask(client, here, sent, policy)
        try:
            if not response.has_redirect_location:
                yield response
                return
            here = check_url(str(here.join(response.headers["location"])))
        finally:
            await response.aclose()
    raise _fault(f"has more than {MOST_REDIRECTS} redirects")


async def _ask(
    client: httpx2.AsyncClient, url: httpx2.URL, headers: dict[str, str], policy: DownloadPolicy
) -> httpx2.Response:
    """Sends a request to a checked address. Resolving the name again could give a different one."""
    port = url.port or (443 if url.scheme == "https" else 80)
    found = await private_addresses.resolve_host(url.host, port, private=policy.private, field=FIELD)
    failure: httpx2.TransportError | None = None
    for address in found:
        request = client.build_request(
            "GET",
            url.copy_with(host=address, username=None, password=None, fragment=None),
            headers={**headers, "host": url.netloc.decode(), "accept-encoding": "identity"},
            extensions={"sni_hostname": url.host, "timeout": httpx2.Timeout(_SILENCE).as_dict()},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failure = error
    assert failure is not None
    raise failure


def _client() -> httpx2.AsyncClient:
    # No proxies or credentials from the environment: they belong to the plane, not to the caller.
    return httpx2.AsyncClient(trust_env=False, follow_redirects=False, headers={"user-agent": "mizzen"})


class _TryAgain(Exception):
    pass


def _fault(message: str) -> Invalid:
    return Invalid.of("the version", (Fault(FIELD, message),))


def _begins(response: httpx2.Response) -> int:
    start = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdecimal() else -1


def _validator(response: httpx2.Response) -> str:
    etag = str(response.headers.get("etag", ""))
    return etag if etag and not etag.startswith("W/") else str(response.headers.get("last-modified", ""))


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _basic(url: httpx2.URL) -> str:
    if not url.userinfo:
        return ""
    from base64 import b64encode

    return "Basic " + b64encode(f"{url.username}:{url.password}".encode()).decode()
