"""The protocols of the data plane: V2 and V1 messages, tensors, and the frames between gateway and runtime.

Here: encoding and decoding, no sockets. `frames` needs only the standard library, because a runtime may run in an
environment without our dependencies.
"""
