"""gRPC's own services with gRPC's own clients: health, and reflection, with whose descriptors a model is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "inference.GRPCInferenceService"
GRAPHS = ("iris-split", "iris-bandit", "iris-mean", "iris-chain")


def _channel() -> Any:
    return grpc.insecure_channel(json.loads((Path.home() / "inference.json").read_text())["grpc"])


def health_of_server_services_and_models(_namespace: str) -> None:
    with _channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE, "grpc.health.v1.Health", "iris", *GRAPHS):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        try:
            stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=30)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
        else:
            raise AssertionError("no error")


def health_that_is_watched(_namespace: str) -> None:
    with _channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name, status in (
            ("iris", health_pb2.HealthCheckResponse.SERVING),
            ("nobody", health_pb2.HealthCheckResponse.SERVICE_UNKNOWN),
        ):
            watched = stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=30)
            assert next(watched).status == status
            watched.cancel()


def a_model_called_by_what_reflection_tells(_namespace: str) -> None:
    with _channel() as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in database.get_services()
        pool = descriptor_pool.DescriptorPool(database)
        method = pool.FindServiceByName(SERVICE).FindMethodByName("ModelInfer")
        request: Any = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        for name in ("iris", *GRAPHS):
            asked = request(model_name=name)
            tensor = asked.inputs.add(name="input", datatype="FP64", shape=[1, 4])
            tensor.contents.fp64_contents.extend([5.1, 3.5, 1.4, 0.2])
            answer = call(asked, timeout=30)
            assert answer.model_name == name
            assert answer.outputs[0].name == "predict"
            assert answer.raw_output_contents[0] == bytes(8)
