"""Rules that several kinds share and that need more than one field: references, placement, workload templates.

Single kinds keep their own rules beside their spec.
"""
