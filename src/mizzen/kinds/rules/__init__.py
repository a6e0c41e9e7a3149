"""Rules that several kinds share and that need more than one field: references, placement, workload templates.

Rules of a single kind are in the module of its spec.
"""
