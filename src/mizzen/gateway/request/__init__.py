"""Parts of a request that no model knows: its path, ids, origin, body budget, encoding and plain responses.

A leaf: nothing here imports another group of the gateway.
"""
