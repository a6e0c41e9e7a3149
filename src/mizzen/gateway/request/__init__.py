"""Parts of a request that no model knows: its head, path, ids, origin, body budget, encoding and plain responses.

Nothing here imports another group of the gateway but `gateway.access`.
"""
