"""Deletion of objects and files: cascades, namespace deletion, garbage collection of blobs, and retention.

The DELETE route itself is in `server.resources`.
"""
