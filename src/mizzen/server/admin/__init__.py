"""Routes for operators: users, secrets, rate limits, usage, metrics, the OpenAPI document and TLS certificates.

Deciding whether a caller may use them is in `server.auth`.
"""
