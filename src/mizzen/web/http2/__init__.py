"""An HTTP/2 server for gRPC: one connection, many calls, each a request and a response with trailers.

Hand-written, because gRPC's own server costs ten times as much per call. `frames` encodes frames, `headers` does HPACK,
`stream` is one call; `writer` and `connection` are the writing and the reading half of a connection.
"""
