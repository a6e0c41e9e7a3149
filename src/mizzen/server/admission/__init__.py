"""Checks between a decoded request and the store: decoding, field validation, field managers, trust, guards,
idempotency.

Anything that deletes belongs to `server.deletion`; anything that answers HTTP belongs to a group of routes.
"""
