"""Handles for users: a model, a graph, a job and a monitor, synchronous over an event loop in a thread.

They call `sdk.api` and `sdk.operations`, and add no behavior.
"""
