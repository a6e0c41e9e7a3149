"""Encoding and decoding of gRPC messages: ModelInfer requests and responses, status codes, descriptors.

Nothing here knows connections, queues or models.
"""
