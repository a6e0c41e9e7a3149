"""Which nodes answered a request, and by which decisions: kept for as long as feedback may come.

A gateway appends to segments of its own (`log`), any gateway reads those of all (`finding`), the plane removes what is
left over (`sweeping`). Here are files and their format, and nothing of what feedback means.
"""

from __future__ import annotations

FOLDER = "records"
"""In the data dir."""
