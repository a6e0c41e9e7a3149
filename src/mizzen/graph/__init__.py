"""Inference graphs without input or output: compile a spec into a Plan, execute a Plan.

`compile` is the only module here that knows kinds; the gateway uses the others and stays free of pydantic.
"""
