"""HTTP/2 as gRPC needs it, for servers: one connection, many calls, each a request and an answer with trailers.

Hand-written because gRPC's own server costs ten times as much a call. `frames` are the bytes, `headers` their heads,
`streams` one call of many; a connection is what writes (`wire`) and what reads (`connection`).
"""
