"""A client of gRPC as others use it, grpcio, with the messages of our own pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np

from mizzen.gateway.grpc.wire import message_types

SERVICE = "inference.GRPCInferenceService"
PATIENCE = 60.0


class Caller:
    def __init__(self, channel: Any, metadata: Iterable[tuple[str, str]] = ()) -> None:
        self.channel = channel
        self.metadata = tuple(metadata)

    def as_(self, **metadata: str) -> Caller:
        return Caller(self.channel, [(name.replace("_", "-"), value) for name, value in metadata.items()])

    def method(self, name: str, service: str = SERVICE, package: str = "inference") -> Callable[..., Any]:
        """A call of one message, named as in the .proto."""
        request, response = (
            message_types.class_of(f"{package}.{name}Request"),
            message_types.class_of(f"{package}.{name}Response"),
        )
        call = self.channel.unary_unary(
            f"/{service}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

        def ask(message: Any = None, *, timeout: float = PATIENCE, **fields: Any) -> Any:
            return call(message or request(**fields), metadata=self.metadata, timeout=timeout)

        return ask

    def infer(self, message: Any, timeout: float = PATIENCE) -> Any:
        return self.method("ModelInfer")(message, timeout=timeout)

    def begun(self, message: Any) -> Any:
        """A call on its way, which has `cancel` and `result`."""
        request, response = (message_types.class_of(f"inference.ModelInfer{end}") for end in ("Request", "Response"))
        call = self.channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call.future(message, metadata=self.metadata, timeout=PATIENCE)

    def check(self, service: str = "") -> Any:
        request = message_types.class_of("grpc.health.v1.HealthCheckRequest")
        call = self.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=request.SerializeToString,
            response_deserializer=message_types.class_of("grpc.health.v1.HealthCheckResponse").FromString,
        )
        return call(request(service=service), metadata=self.metadata, timeout=PATIENCE)

    def raw(self, method: str, body: bytes = b"", **options: Any) -> Any:
        call = self.channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        return call(body, metadata=self.metadata, timeout=PATIENCE, **options)

    def refusal(self, ask: Callable[[], Any]) -> tuple[str, str]:
        """The status that a call ends with that must not go well, and its words."""
        try:
            answer = ask()
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"it went well: {answer}")


@contextmanager
def calling(address: str, **metadata: str) -> Iterator[Caller]:
    # A channel of its own: else all of one process share connections.
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Caller(channel).as_(**metadata)


def request_of(name: str, rows: Any, tensor: str = "input", **more: Any) -> Any:
    """A ModelInferRequest with raw data."""
    array = np.asarray(rows, np.float64)
    made = message_types.class_of("inference.ModelInferRequest")(model_name=name, **more)
    made.inputs.add(name=tensor, datatype="FP64", shape=array.shape)
    made.raw_input_contents.append(array.tobytes())
    return made


def typed_request_of(name: str, rows: Any, tensor: str = "input", **more: Any) -> Any:
    """The same with its values one by one."""
    made = request_of(name, rows, tensor, **more)
    del made.raw_input_contents[:]
    made.inputs[0].contents.fp64_contents.extend(np.asarray(rows, np.float64).ravel())
    return made


def outputs_of(answer: Any) -> dict[str, Any]:
    """Of a ModelInferResponse, as arrays."""
    kinds = {"FP64": np.float64, "FP32": np.float32, "INT64": np.int64, "INT32": np.int32}
    return {
        output.name: np.frombuffer(data, kinds[output.datatype]).reshape(output.shape)
        for output, data in zip(answer.outputs, answer.raw_output_contents, strict=True)
    }
