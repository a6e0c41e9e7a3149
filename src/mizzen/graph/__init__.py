"""Inference graphs, without I/O: compile a spec into a Plan, and execute a Plan.

Only `compile` imports kinds. The gateway uses the other modules and stays free of pydantic.
"""
