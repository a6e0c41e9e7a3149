"""The one table from error classes to HTTP, and the one shape of an error: a Kubernetes `Status` object.

Every failure below `ErrorBoundary`, in a route, in the router or in a middleware, gets a response of that shape.
"""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen import errors
from mizzen.errors import Fault, MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import API_GROUP

logger = logging.getLogger(__name__)

STATUS: dict[type[MizzenError], int] = {
    errors.BadRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.Conflict: 409,
    errors.Expired: 410,
    errors.TooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.Invalid: 422,
    errors.TooManyRequests: 429,
    errors.ModelFailed: 500,
    errors.TrainingFailed: 500,
    MizzenError: 500,
    errors.Unavailable: 503,
    errors.DeadlineExceeded: 504,
    errors.NoRoom: 507,
}

HEADERS: dict[type[MizzenError], dict[str, str]] = {
    errors.Unauthenticated: {"WWW-Authenticate": 'Bearer realm="mizzen"'},
    errors.Unavailable: {"Retry-After": "1"},
    errors.TooManyRequests: {"Retry-After": "1"},
}


def http_status(error: MizzenError) -> int:
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def status_body(error: MizzenError) -> dict[str, Any]:
    return _status_object(http_status(error), error.reason, error.message, hint=error.hint, faults=error.faults)


def error_response(error: MizzenError) -> Response:
    return JSONResponse(status_body(error), http_status(error), headers=HEADERS.get(type(error)))


async def answer_mizzen_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MizzenError)
    body = status_body(error)
    body["details"] = {**_details_of(request, error), **body["details"]}
    return JSONResponse(body, http_status(error), headers=HEADERS.get(type(error)))


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """For refusals of the router itself: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    code = error.status_code
    headers = dict(error.headers or {})
    if code == HTTPStatus.NOT_FOUND:
        body = _status_object(
            code, errors.NotFound.reason, f"no such path: {request.url.path}", hint="GET / lists the paths"
        )
    elif code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the first route with this path only.
        headers["Allow"] = ", ".join(sorted(_methods_at(request)))
        body = _status_object(
            code,
            "MethodNotAllowed",
            f"method {request.method} is not allowed here",
            hint=f"allowed: {headers['Allow']}",
        )
    else:
        body = _status_object(code, HTTPStatus(code).phrase.replace(" ", ""), error.detail)
    return JSONResponse(body, code, headers=headers)


class ErrorBoundary:
    """Outermost middleware: it logs an unexpected error under an incident id. The caller gets only the id."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except MizzenError as error:  # raised by a middleware; errors of routes were answered further in
            if started:
                raise
            await error_response(error)(scope, receive, send)
        except Exception:
            incident = secrets.token_hex(6)
            logger.exception("incident %s: %s %s", incident, scope.get("method"), scope.get("path"))
            if started:
                raise  # part of the response was sent: only closing the connection tells the client
            unexpected = MizzenError(
                f"unexpected error, incident {incident}", hint="the plane's log has the details under this id"
            )
            await error_response(unexpected)(scope, receive, send)


def _status_object(
    code: int, reason: str, message: str, *, hint: str = "", faults: tuple[Fault, ...] = ()
) -> dict[str, Any]:
    causes = [
        {"field": fault.path, "message": fault.message, **({"reason": fault.reason} if fault.reason else {})}
        for fault in faults
    ]
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": code, "details": {"causes": causes, "hint": hint},
    }  # fmt: skip


def _details_of(request: Request, error: MizzenError) -> dict[str, str]:
    """Returns which object of the resource API a request was for: kubectl prints it with the error.

    As Kubernetes does: by its kind if the object is invalid, else by the plural in the path.
    """
    kind = _kind_at(request)
    if kind is None or (isinstance(error, errors.Invalid) and not error.faults):
        return {}  # with details kubectl prints the name and each fault, without them the message
    # The path of a creation has no name.
    name = request.path_params.get("name") or getattr(request.state, "object_name", "")
    group = {} if kind in catalog.CORE else {"group": API_GROUP}
    about = {**group, "kind": kind.name if isinstance(error, errors.Invalid) else kind.plural}
    if not name:
        # With an empty name, kubectl would say that "" is invalid; without details, that the request is.
        return {} if isinstance(error, errors.Invalid) else about
    return {**about, "name": name}


def _kind_at(request: Request) -> Kind | None:
    plural = request.path_params.get("plural")
    if plural is not None:
        return catalog.BY_PLURAL.get(plural)
    match request.url.path.split("/"):
        case ["", "api", version, "namespaces", _, plural, *_] | ["", "api", version, plural, *_]:
            return next((kind for kind in catalog.CORE if (version, kind.plural) == (CORE_VERSION, plural)), None)
    return None


def _methods_at(request: Request) -> set[str]:
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in routes for method in route.methods}
