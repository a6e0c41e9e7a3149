"""MLGraph: nodes, what they call, where their output goes, and the rules for the whole. `spec.py` is the kind."""
