"""State learned from feedback: how well each arm does, and which nodes answered which request.

`state_db` is the file that all gateways of a plane share. `cached_state` reads it for each request, `feedback_writer`
writes it, and `change_marker` tells the other gateways about a write at once. `records` store which nodes answered a
request for as long as feedback may arrive. Here: files and their use. Not here: how bandits choose and learn
(`graph/bandits.py`), HTTP, feedback validation. Gateways import it: no pydantic, no kinds, no stores.
"""
