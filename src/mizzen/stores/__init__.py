"""Storage of resources. `store` has the protocol; the `sqlite` package implements it for laptop and team server.

Here: durability, ordering, watch, history. Not here: the meaning of specs, permissions, HTTP.
"""
