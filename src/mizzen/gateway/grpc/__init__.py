"""V2 over gRPC: unary and streaming calls, health, reflection and metadata, on the HTTP/2 server of `mizzen.web`.

`wire` encodes and decodes messages; `gateway.inference` runs the inference.
"""
