"""The queue of one served version: admission, batch sizing, lanes, deadlines, replicas and scale from zero.

Nothing here knows HTTP, gRPC or graphs.
"""
