"""Patches of JSON documents, and the ownership of their fields: pure functions over plain data.

Here: merge patch (RFC 7396), JSON patch (RFC 6902), sets of fields, and server-side apply as in Kubernetes.
Not here: kinds and their rules, HTTP, stores.
"""
