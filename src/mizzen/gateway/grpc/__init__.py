"""V2 over gRPC: calls, streams, health, reflection and metadata, on the HTTP/2 of `mizzen.web`.

Bytes of messages are in `wire`; what an inference means is in `gateway.inference`.
"""
