"""HTTP to one plane: bearer token, safe retries, and error responses turned into the classes of mizzen.errors.

A request that could not connect was never sent, so it is retried. A request that was cut off is retried only if
it is a read. Retries end after `PATIENCE` seconds, enough for a killed plane to restart.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from mizzen import errors
from mizzen.sdk.connection import locate, tls_trust, warnings
from mizzen.sdk.connection.warnings import Warned
from mizzen.version import VERSION

PATIENCE: Final = 3.0
"""Seconds for which a broken connection is retried."""

_PAUSE: Final = 0.1
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

# Responses of the inference API, and of proxies in front of a plane, carry no reason: map the status code.
_BY_NUMBER: Final[Mapping[int, type[errors.MizzenError]]] = {
    400: errors.BadRequest,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.DeadlineExceeded,
    409: errors.Conflict,
    410: errors.Expired,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.DeadlineExceeded,
    507: errors.NoRoom,
}


class Transport:
    """Requests to one base URL. Create and use it on one event loop."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        hint: str = "",
        patience: float = PATIENCE,
        on_warning: Warned = warnings.as_python,
        control: bool = False,
        token_from: str = "",
        data_dir: Path | None = None,
    ) -> None:
        """`control`: the peer must be a control API. `token_from`: where the token was found, if it was looked up.
        `data_dir`: that of a plane on this machine."""
        self.url = url.rstrip("/")
        self._is_control = control
        self._token_from = token_from if token else ""
        self._hint = hint
        self._patience = patience
        self._on_warning = on_warning
        token = locate.clean_token(token)
        # The plane uses this name as the field manager of the fields written with it.
        headers = {"user-agent": f"mizzen/{VERSION}", **({"authorization": f"Bearer {token}"} if token else {})}
        try:
            self._http = httpx2.AsyncClient(
                base_url=self.url,
                headers=headers,
                timeout=30.0,
                verify=tls_trust.for_url(self.url, data_dir),
                # Do not use a proxy from the environment for a plane on this machine.
                trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
            )
        except (httpx2.InvalidURL, ValueError) as error:
            raise errors.BadRequest(f"'{url}' is not a valid address of a plane: {error}") from error

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one try's, given to the HTTP client
        fresh: bool = False,
        headers: Mapping[str, str] | None = None,
        on_warning: Warned | None = None,
        repeatable: bool = False,
    ) -> httpx2.Response:
        """Return the response, or raise the error it carries. `fresh` uses a new connection.

        The body is sent as JSON; bytes are sent unchanged. `on_warning` is called instead of the default handler.
        `repeatable`: the request is idempotent, for example through a key.
        """
        request = self._build(method, path, body, params, timeout, fresh=fresh)
        request.headers.update(headers or {})
        end = asyncio.get_running_loop().time() + self._patience
        while True:
            try:
                response = await self._http.send(request)
            except (httpx2.HTTPError, OSError) as error:
                late = asyncio.get_running_loop().time() > end
                if late or not _harmless(error, "GET" if repeatable else method):
                    raise self._explain(error) from error
                await asyncio.sleep(_PAUSE)
                continue
            for text in warnings.texts(response.headers.get_list("warning")):
                (on_warning or self._on_warning)(text)
            if response.is_success:
                return response
            raise self._failure(response.status_code, response.content)

    async def json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        return (await self.answer(method, path, **more))[1]

    async def answer(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """Return the status code and the response: 200 or 201 may tell whether an object is new."""
        response = await self.request(method, path, **more)
        answer = _decode(response.content)
        if answer is None:
            raise errors.MizzenError(f"{self.url}{path} did not return a JSON object", hint="is this a Mizzen plane?")
        return response.status_code, answer

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, Any], *, idle: float | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Stream the response of a GET; `idle` limits the silence within it, None allows any."""
        request = self._build("GET", path, None, params, None)
        request.extensions["timeout"] = httpx2.Timeout(30.0, read=idle).as_dict()
        try:
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise self._failure(response.status_code, await response.aread())
                yield response
            finally:
                await response.aclose()
        except (httpx2.HTTPError, OSError) as error:
            raise self._explain(error) from error

    def _build(
        self,
        method: str,
        path: str,
        body: Any,
        params: Mapping[str, Any] | None,
        timeout: float | None,
        *,
        fresh: bool = False,
    ) -> httpx2.Request:
        wanted = {key: _format_parameter(value) for key, value in (params or {}).items() if value is not None}
        headers = {"connection": "close"} if fresh else {}
        content = None
        if isinstance(body, bytes):
            content = body
            headers["content-type"] = "application/octet-stream"
        elif body is not None:
            content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
            headers["content-type"] = "application/json"
        return self._http.build_request(
            method,
            path,
            params=wanted or None,
            content=content,
            headers=headers,
            timeout=httpx2.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )

    def _failure(self, code: int, body: bytes) -> errors.MizzenError:
        if self._is_control and code == 404 and set(_decode(body) or ()) == {"error"}:
            # The control API sends a Status.
            return errors.BadRequest(
                f"{self.url} is the inference API of a plane, not its control API",
                hint="set MIZZEN_URL to the control API, such as http://127.0.0.1:8470; 'mizzen status' shows both",
            )
        error = failure(code, body)
        if code == 401 and self._token_from:
            error.hint = f"the token from {self._token_from} is not valid here; 'mizzen token create USER' creates one"
        return error

    def _explain(self, error: Exception) -> errors.MizzenError:
        if tls_trust.is_untrusted(error):
            return tls_trust.explain(self.url, error)
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return errors.Unavailable(f"nothing answers at {self.url}", hint=self._hint)
        if isinstance(error, httpx2.TimeoutException):
            return errors.DeadlineExceeded(f"{self.url} took too long to answer")
        if isinstance(error, httpx2.ProtocolError):
            # Its text may quote headers, one of which holds the token.
            return errors.Unavailable(f"{self.url} closed the connection, or its response is not HTTP", hint=self._hint)
        return errors.Unavailable(
            f"the connection to {self.url} broke: {str(error) or type(error).__name__}", hint=self._hint
        )


def failure(code: int, body: bytes) -> errors.MizzenError:
    """Return the error a response carries: a Status of the control API, or the inference API's {"error": …}."""
    answer = _decode(body) or {}
    unlisted = errors.ModelFailed if "error" in answer else errors.MizzenError
    kind = errors.FAMILY.get(str(answer.get("reason"))) or _BY_NUMBER.get(code, unlisted)
    message = answer.get("message") or answer.get("error") or body.decode(errors="replace").strip()[:500]
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    faults = tuple(
        errors.Fault(str(cause.get("field", "")), str(cause.get("message", "")))
        for cause in details.get("causes") or ()
    )
    hint = str(details.get("hint") or answer.get("hint") or "")
    return kind(str(message or f"the plane answered {code}"), hint=hint, faults=faults)


def error_of(code: int, text: str) -> errors.MizzenError:
    """Return the error for a code and a text that the inference API put inside a response."""
    return failure(code, json.dumps({"error": text}).encode())


def _harmless(error: Exception, method: str) -> bool:
    """Return whether a retry is safe: nothing was sent, or sending it twice changes nothing."""
    if isinstance(error, httpx2.ConnectError):
        return not tls_trust.is_untrusted(error)  # an untrusted peer will not be trusted in a second
    return method == "GET" and isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _format_parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
