"""Routes for operators: users, secrets, rate limits, usage, metrics, the OpenAPI document and TLS certificates.

Decisions about access to them are in `server.auth`.
"""
