"""Readiness of a replica: over its socket, or over HTTP."""
