"""Changes to JSON documents, and who owns which field of one: pure functions over plain data.

Here: merge patch (RFC 7396), JSON patch (RFC 6902), sets of fields, and apply with field managers as Kubernetes has it.
Not here: kinds and their rules, HTTP, stores.
"""
