"""The binary frames between gateway and runtime: framing, msgpack, large frames.

Runtimes copy this package into other Python environments: standard library, msgspec and numpy only.
"""
