"""The languages of the data plane: V2 messages, tensors, and the frames between gateway and runtime.

Here: encoding and decoding, no sockets. `frames` and `msgpack` need the standard library only, because a runtime may
live in an environment that has nothing else of ours.
"""
