"""Who gets in to a monitor: whoever may read the model and has said who they are. Browsers are asked for a token.

GET  …/monitor/login     a form for a token
POST …/monitor/login     takes it, and gives a cookie
POST …/monitor/logout    ends that
POST …/monitor/ticket    an address with a ticket in it, for who has a token already
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
from mizzen.server.auth.authentication import Identity, Known
from mizzen.server.http.context import plane_of
from mizzen.server.http.errors import HEADERS, http_status
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_bytes
from mizzen.server.monitor.sessions import COOKIE, SECONDS, TICKET_SECONDS, Visits, own_page

LONGEST_FORM = 16 * 1024
FORM = "application/x-www-form-urlencoded"
PREFIXES = ("/model/{model}/monitor", "/ns/{namespace}/model/{model}/monitor")
"""The second is for what a browser is shown: a tool has a query of its own, which must not have to name a namespace."""
_SHELL = Path(__file__).with_name("shell.html").read_text("utf-8")
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entrance:
    identity: Identity
    visits: Visits

    def routes(self) -> list[Route]:
        return [
            Route(f"{prefix}/{name}", method, methods=methods)
            for prefix in PREFIXES
            for name, method, methods in (
                ("login", self.asked, ["GET"]),
                ("login", self.log_in, ["POST"]),
                ("logout", self.log_out, ["POST"]),
                ("ticket", self.ticket, ["POST"]),
            )
        ]

    async def asked(self, request: Request) -> Response:
        """The form; for who is in already, the way on."""
        model = place(request, Query(request, *_asked(request)))
        try:
            require(request, model)
        except (Unauthenticated, Forbidden) as error:
            return refused(request, model, error)
        return _on(tool_path(model))

    async def log_in(self, request: Request) -> Response:
        model = place(request, Query(request, *_asked(request)))
        if not own_page(request.headers, changing=True):
            require(request, model)  # who sends no form of ours is told no more than elsewhere
            _refuse_foreign(request)
        said = await _form(request)
        try:
            known = await self.identity.of([f"Bearer {said.get('token', '').strip()}"])
            request.state.known = known
            require(request, model)
        except (Unauthenticated, Forbidden) as error:
            return refused(request, model, error, to=said.get("to", ""))
        return self._in(request, model, known, page_path(model) if said.get("to") == "page" else tool_path(model))

    async def log_out(self, request: Request) -> Response:
        model = place(request, Query(request, *_asked(request)))
        require(request, model)
        _refuse_foreign(request)
        self.visits.end(request.scope)
        answer = _on(f"{path_of(model)}/login")
        answer.delete_cookie(COOKIE, path=path_of(model))
        return answer

    async def ticket(self, request: Request) -> Response:
        model = place(request, Query(request, *_asked(request)))
        require(request, model)
        await plane_of(request).store.get(model)
        ticket = self.visits.ticket(model, request.state.known)
        url = f"{base(request)}{tool_path(model)}?ticket={ticket}"
        return JSONResponse({"url": url, "expiresInSeconds": TICKET_SECONDS}, headers={"Cache-Control": "no-store"})

    def redeem(self, request: Request, model: Ref, ticket: str) -> Response:
        """Gives the cookie, and leads to the same path without the ticket."""
        known = self.visits.redeemed(ticket, model)
        if known is None:
            error = Unauthenticated(
                "this ticket is not valid, not any more or not here",
                hint=f"a ticket is good once, for {TICKET_SECONDS} seconds: 'mizzen monitor open {model.name}'",
            )
            return answered(request, model, error)
        request.state.known = known
        require(request, model)
        return self._in(request, model, known, request.url.path)

    def _in(self, request: Request, model: Ref, known: Known, to: str) -> Response:
        led = request.headers.get("sec-fetch-site") in (None, "none", "same-origin")
        # Who came by a link of another site would be sent on by that site, and browsers would keep the cookie back.
        answer = _on(to) if led else shell(model, "One moment", "", ahead=to)
        answer.set_cookie(
            COOKIE,
            self.visits.begin(model, known),
            max_age=SECONDS,
            path=path_of(model),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def place(request: Request, query: Query | None = None) -> Ref:
    """The model of the path. Without a query, which is the tool's then: of the default namespace, or of the path's."""
    namespace = request.path_params.get("namespace")
    if namespace is None:
        namespace = query.namespace() if query is not None else DEFAULT_NAMESPACE
    return Ref("Model", request.path_params["model"], str(namespace))


def _asked(request: Request) -> tuple[str, ...]:
    """A namespace stands in the path, or in the query."""
    return () if "namespace" in request.path_params else ("namespace",)


def require(request: Request, model: Ref) -> None:
    """May they look at the monitor? Unauthenticated, Forbidden."""
    authorization.require(request, "read", targets.model(model, subresource="monitor"))


def base(request: Request) -> str:
    """Where this API is, as whoever asks has reached it."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def answered(request: Request, model: Ref, error: MizzenError) -> Response:
    """As a page for a browser that shows it to somebody; else raised, and answered as everywhere."""
    if "text/html" not in request.headers.get("accept", ""):
        raise error
    if isinstance(error, Unauthenticated | Forbidden):
        return refused(request, model, error)
    request.state.error = error
    again = 2 if isinstance(error, Unavailable) else 0
    words = "\n".join(filter(None, (error.message, error.hint)))
    return shell(model, words, "", status=http_status(error), again=again)


def refused(request: Request, model: Ref, error: MizzenError, *, to: str = "") -> Response:
    """The form for a token, and why it is asked for."""
    request.state.error = error  # for the audit
    to = to or ("page" if request.url.path.endswith("/page") else "tool/")
    words = error.message if request.state.known.actor.name != "anonymous" or request.method == "POST" else ""
    answer = shell(model, words, path_of(model), status=http_status(error), to=to)
    answer.headers.update(HEADERS.get(type(error), {}))
    return answer


def shell(
    model: Ref, words: str, form: str, *, status: int = 200, to: str = "", ahead: str = "", again: int = 0
) -> HTMLResponse:
    """A page with a few words; `form`: with a form for a token below this path; `ahead`: which leads on to there at
    once; `again`: which asks for itself again after so many seconds."""
    refresh = f"0; url={ahead}" if ahead else str(again) if again else ""
    meta = f'<meta http-equiv="refresh" content="{html.escape(refresh)}">' if refresh else ""
    filled = {
        "META": meta, "MODEL": html.escape(model.name), "WORDS": html.escape(words), "TO": html.escape(to),
        "ACTION": html.escape(f"{form}/login"), "FORM": "" if form else "hidden",
        "COMMAND": html.escape(f"mizzen monitor open {model.name}"),
    }  # fmt: skip
    content = re.sub(r"%([A-Z]+)%", lambda match: filled[match[1]], _SHELL)
    return HTMLResponse(content, status, headers=guarded(content))


def guarded(content: str, *sources: str) -> Mapping[str, str]:
    """Headers of a page of ours: it runs and loads nothing but what stands in it, and asks only `sources`."""
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
        "Referrer-Policy": "same-origin",  # with none at all, browsers would not even say that a form is our own
        "X-Content-Type-Options": "nosniff",
    }


def _on(to: str) -> Response:
    return RedirectResponse(to, 303, headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})


def _refuse_foreign(request: Request) -> None:
    if not own_page(request.headers, changing=True):
        raise Forbidden(
            "this is for the form of this page; it was sent from elsewhere",
            hint="programs send 'Authorization: Bearer <token>' with each request",
        )


async def _form(request: Request) -> dict[str, str]:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != FORM:
        raise UnsupportedMediaType(f"cannot read a form of type '{media_type}'", hint=f"send {FORM}")
    sent = (await read_bytes(request, LONGEST_FORM)).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(sent, max_num_fields=10).items()}
