"""Records of which nodes answered a request, and of the routing decisions, for as long as feedback may arrive.

A gateway appends to its own segments (`writer`), any gateway reads those of all (`lookup`), and the plane removes
leftovers (`retention`). Here: files and their format. Not here: what feedback means.
"""

from __future__ import annotations

FOLDER = "records"
"""In the data dir."""
