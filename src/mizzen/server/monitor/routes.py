"""All routes of monitors, with what they share."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen.runs.scalars.reader import Scalars
from mizzen.server.auth.authentication import Identity
from mizzen.server.monitor import lifecycle, proxy
from mizzen.server.monitor.comparison import Comparison
from mizzen.server.monitor.sessions import Visits
from mizzen.server.monitor.sign_in import PREFIXES, Entrance


def for_browsers(path: str) -> bool:
    """Whether what answers at this path of a route is for people only: no part of the API that programs read of."""
    below = path.removeprefix(PREFIXES[0])
    return path.startswith(PREFIXES[1]) or below.startswith(("/login", "/logout", "/page", "/tool"))


def routes(identity: Identity, visits: Visits, data_dir: Path) -> list[Route]:
    entrance = Entrance(identity, visits)

    async def tool(request: Request) -> Response:
        return await proxy.shown(request, entrance)

    proxied = [
        Route(f"{prefix}{path}", tool, methods=["GET", "POST"])
        for prefix in PREFIXES
        for path in ("/tool", "/tool/{path:path}")
    ]
    return [*lifecycle.routes(), *entrance.routes(), *Comparison(Scalars(data_dir)).routes(), *proxied]
