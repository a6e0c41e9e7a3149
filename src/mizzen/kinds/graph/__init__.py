"""MLGraph: nodes, what they call, where their output goes, and the rules for a whole graph. `spec.py` is the kind."""
