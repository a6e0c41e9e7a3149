"""Bytes of gRPC messages: protobuf fields, ModelInfer requests and responses, status codes, descriptors.

Nothing here knows connections, queues or models.
"""
