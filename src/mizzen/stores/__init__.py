"""Where resources live. `store.py` is the protocol every home keeps; `sqlite.py` is the one of laptop and team server.

Here: durability, ordering, watch, history. Not here: meaning of specs, permissions, HTTP.
"""
