"""Sign-in to a monitor, which needs `read` on the model and a token. Browsers get a form for the token.

GET  …/monitor/login     the form
POST …/monitor/login     checks the token, and sets a session cookie
POST …/monitor/logout    ends the session
POST …/monitor/ticket    returns a URL with a ticket, for clients that have a token
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mizzen.errors import Forbidden, MizzenError, Unauthenticated, Unavailable, UnsupportedMediaType
from mizzen.kinds.monitor import page_path, path_of, tool_path
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref
from mizzen.server.auth import authorization, targets
from mizzen.server.auth.authentication import Authenticator, CallerIdentity
from mizzen.server.http.context import context_of
from mizzen.server.http.errors import HEADERS, http_status
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import media_type, read_bytes
from mizzen.server.monitor.sessions import COOKIE, SECONDS, TICKET_SECONDS, MonitorSessions, is_own_page

MAX_FORM_BYTES = 16 * 1024
FORM = "application/x-www-form-urlencoded"
PREFIXES = ("/model/{model}/monitor", "/ns/{namespace}/model/{model}/monitor")
"""The second is for browsers: the query belongs to the tool, so the namespace must be in the path."""
_SHELL = Path(__file__).with_name("shell.html").read_text("utf-8")
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SignIn:
    identity: Authenticator
    sessions: MonitorSessions

    def routes(self) -> list[Route]:
        return [
            Route(f"{prefix}/{name}", method, methods=methods)
            for prefix in PREFIXES
            for name, method, methods in (
                ("login", self.show_form, ["GET"]),
                ("login", self.log_in, ["POST"]),
                ("logout", self.log_out, ["POST"]),
                ("ticket", self.ticket, ["POST"]),
            )
        ]

    async def show_form(self, request: Request) -> Response:
        """The form; a redirect to the tool for callers that are signed in already."""
        model = model_in_path(request, Query(request, *_query_names(request)))
        try:
            require(request, model)
        except (Unauthenticated, Forbidden) as error:
            return render_form(request, model, error)
        return _redirect(tool_path(model))

    async def log_in(self, request: Request) -> Response:
        model = model_in_path(request, Query(request, *_query_names(request)))
        if not is_own_page(request.headers, changing=True):
            require(request, model)  # a foreign form learns no more here than elsewhere
            _refuse_foreign(request)
        form = await _read_form(request)
        try:
            known = await self.identity.authenticate([f"Bearer {form.get('token', '').strip()}"])
            request.state.caller = known
            require(request, model)
        except (Unauthenticated, Forbidden) as error:
            return render_form(request, model, error, to=form.get("to", ""))
        to = page_path(model) if form.get("to") == "page" else tool_path(model)
        return self._start_session(request, model, known, to)

    async def log_out(self, request: Request) -> Response:
        model = model_in_path(request, Query(request, *_query_names(request)))
        require(request, model)
        _refuse_foreign(request)
        self.sessions.end(request.scope)
        answer = _redirect(f"{path_of(model)}/login")
        answer.delete_cookie(COOKIE, path=path_of(model))
        return answer

    async def ticket(self, request: Request) -> Response:
        model = model_in_path(request, Query(request, *_query_names(request)))
        require(request, model)
        await context_of(request).store.get(model)
        ticket = self.sessions.new_ticket(model, request.state.caller)
        url = f"{base_url(request)}{tool_path(model)}?ticket={ticket}"
        return JSONResponse({"url": url, "expiresInSeconds": TICKET_SECONDS}, headers={"Cache-Control": "no-store"})

    def redeem(self, request: Request, model: Ref, ticket: str) -> Response:
        """Sets the cookie, and redirects to the same path without the ticket."""
        known = self.sessions.redeem(ticket, model)
        if known is None:
            error = Unauthenticated(
                "this ticket is not valid: it has expired, was used, or is for another monitor",
                hint=f"it works once, within {TICKET_SECONDS} seconds; 'mizzen monitor open {model.name}' gets another",
            )
            return respond_to_error(request, model, error)
        request.state.caller = known
        require(request, model)
        return self._start_session(request, model, known, request.url.path)

    def _start_session(self, request: Request, model: Ref, known: CallerIdentity, to: str) -> Response:
        is_direct = request.headers.get("sec-fetch-site") in (None, "none", "same-origin")
        # After a link on another site, a redirect would count as cross-site, and browsers would withhold the cookie.
        answer = _redirect(to) if is_direct else render_page(model, "One moment", "", ahead=to)
        answer.set_cookie(
            COOKIE,
            self.sessions.begin(model, known),
            max_age=SECONDS,
            path=path_of(model),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def model_in_path(request: Request, query: Query | None = None) -> Ref:
    """The model in the path. Without `query`, which is the tool's then, the namespace is the path's or the default."""
    namespace = request.path_params.get("namespace")
    if namespace is None:
        namespace = query.namespace() if query is not None else DEFAULT_NAMESPACE
    return Ref("Model", request.path_params["model"], str(namespace))


def _query_names(request: Request) -> tuple[str, ...]:
    """The namespace is in the path, or else in the query."""
    return () if "namespace" in request.path_params else ("namespace",)


def require(request: Request, model: Ref) -> None:
    """Checks that the caller may read the monitor. Raises Unauthenticated, Forbidden."""
    authorization.require(request, "read", targets.model(model, subresource="monitor"))


def base_url(request: Request) -> str:
    """The URL of this API as the client reached it."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def respond_to_error(request: Request, model: Ref, error: MizzenError) -> Response:
    """Renders the error as a page for a browser. For other clients it raises it, as everywhere else."""
    if "text/html" not in request.headers.get("accept", ""):
        raise error
    if isinstance(error, Unauthenticated | Forbidden):
        return render_form(request, model, error)
    request.state.error = error
    again = 2 if isinstance(error, Unavailable) else 0
    words = "\n".join(filter(None, (error.message, error.hint)))
    return render_page(model, words, "", status=http_status(error), again=again)


def render_form(request: Request, model: Ref, error: MizzenError, *, to: str = "") -> Response:
    """The form for a token, with the reason."""
    request.state.error = error  # for the audit
    to = to or ("page" if request.url.path.endswith("/page") else "tool/")
    words = error.message if request.state.caller.actor.name != "anonymous" or request.method == "POST" else ""
    answer = render_page(model, words, path_of(model), status=http_status(error), to=to)
    answer.headers.update(HEADERS.get(type(error), {}))
    return answer


def render_page(
    model: Ref, words: str, form: str, *, status: int = 200, to: str = "", ahead: str = "", again: int = 0
) -> HTMLResponse:
    """A page with a short text. `form`: show a token form that posts below this path; `ahead`: redirect there at once;
    `again`: reload after this many seconds."""
    refresh = f"0; url={ahead}" if ahead else str(again) if again else ""
    meta = f'<meta http-equiv="refresh" content="{html.escape(refresh)}">' if refresh else ""
    filled = {
        "META": meta, "MODEL": html.escape(model.name), "WORDS": html.escape(words), "TO": html.escape(to),
        "ACTION": html.escape(f"{form}/login"), "FORM": "" if form else "hidden",
        "COMMAND": html.escape(f"mizzen monitor open {model.name}"),
    }  # fmt: skip
    content = re.sub(r"%([A-Z]+)%", lambda match: filled[match[1]], _SHELL)
    return HTMLResponse(content, status, headers=security_headers(content))


def security_headers(content: str, *sources: str) -> Mapping[str, str]:
    """Headers for a page of ours: it runs only its inline code, loads nothing, and connects only to `sources`."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for match in _INLINE.finditer(content):
        digest = base64.b64encode(hashlib.sha256(match[2].encode()).digest()).decode()
        hashes[match[1]].append(f"'sha256-{digest}'")
    policy = {
        "default-src": ["'none'"],
        "script-src": hashes["script"] or ["'none'"],
        "style-src": hashes["style"] or ["'none'"],
        "connect-src": list(sources) or ["'none'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'self'"],
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {' '.join(values)}" for name, values in policy.items()),
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",  # with none, browsers would not mark our own form as same-origin
        "X-Content-Type-Options": "nosniff",
    }


def _redirect(to: str) -> Response:
    return RedirectResponse(to, 303, headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})


def _refuse_foreign(request: Request) -> None:
    if not is_own_page(request.headers, changing=True):
        raise Forbidden(
            "this path accepts only the form of its own page; the request came from another site",
            hint="programs send 'Authorization: Bearer <token>' with each request",
        )


async def _read_form(request: Request) -> dict[str, str]:
    if media_type(request) != FORM:
        raise UnsupportedMediaType(f"cannot read a form of type '{media_type(request)}'", hint=f"send {FORM}")
    text = (await read_bytes(request, MAX_FORM_BYTES)).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(text, max_num_fields=10).items()}
