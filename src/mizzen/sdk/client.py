"""AsyncPlane: every call on a plane's two APIs. The real code; `sync.py` dresses it for programs without a loop."""

from __future__ import annotations

from mizzen.sdk.api.access import People
from mizzen.sdk.api.jobs import Jobs
from mizzen.sdk.api.monitors import Monitors


class AsyncPlane(Jobs, Monitors, People):
    """A client of one plane. Made and used on one event loop; `close` it, or use it as a context manager.

    What it calls is in `resources` (objects of every kind), `registry` (models and versions), `jobs` and `monitors`
    (training), `people` (users, tokens, permissions, secrets, the audit), `predictions`, and `looking` (what is printed
    and used).
    """
