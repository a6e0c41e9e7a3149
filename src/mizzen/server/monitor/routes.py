"""All routes of monitors, with their shared state."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen.runs.scalars.reader import Scalars
from mizzen.server.auth.authentication import Authenticator
from mizzen.server.monitor import lifecycle, proxy
from mizzen.server.monitor.comparison import VersionComparison
from mizzen.server.monitor.sessions import MonitorSessions
from mizzen.server.monitor.sign_in import PREFIXES, SignIn


def is_for_browsers(path: str) -> bool:
    """Whether this route is for browsers only, and so not part of the documented API."""
    below = path.removeprefix(PREFIXES[0])
    return path.startswith(PREFIXES[1]) or below.startswith(("/login", "/logout", "/page", "/tool"))


def routes(identity: Authenticator, sessions: MonitorSessions, data_dir: Path) -> list[Route]:
    sign_ins = SignIn(identity, sessions)

    async def tool(request: Request) -> Response:
        return await proxy.proxy_request(request, sign_ins)

    proxied = [
        Route(f"{prefix}{path}", tool, methods=["GET", "POST"])
        for prefix in PREFIXES
        for path in ("/tool", "/tool/{path:path}")
    ]
    return [*lifecycle.routes(), *sign_ins.routes(), *VersionComparison(Scalars(data_dir)).routes(), *proxied]
