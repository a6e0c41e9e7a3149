"""The message types, in their own descriptor pool: other packages define types with the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["DESCRIPTORS", "DecodeError", "class_of", "pool"]

DESCRIPTORS = Path(__file__).with_name("descriptors.binpb")
"""Compiled from the .proto files here by `make gen`."""

pool = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file:
    pool.AddSerializedFile(_file.SerializeToString())


def class_of(name: str) -> Any:
    """Return the class of this message type, such as `inference.ModelInferRequest`."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
