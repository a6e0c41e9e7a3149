"""What a request costs, measured: Mizzen beside nginx (a floor) and a FastAPI app (what one would write by hand).

Here: the harness and its contestants. How to read the figures is in docs/performance.md.
"""
