from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import grpcs
from tests.support.gateway.harness import Gateway, publish, table_of
from tests.support.gateway.models import Counting, ModelRuntime
from tests.support.grpcs import Caller


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def counted(folder: Path, model: Counting) -> Iterator[ModelRuntime]:
    """What answers for `model`, and can be told to keep its answers back."""
    runtime = ModelRuntime(str(folder / "counted.sock"), model)
    yield runtime
    runtime.close()


@pytest.fixture
def start_grpc(
    folder: Path, counted: ModelRuntime, start_gateway: Callable[..., Gateway], grpc_listener: socket.socket
) -> Callable[..., Gateway]:
    """A gateway that serves `model` by the name `m`, and answers gRPC."""

    def start(**more: Any) -> Gateway:
        publish(folder / "table.json", table_of(counted.address, **more.pop("table", {})))
        gateway = start_gateway(grpc=grpc_listener, **more)
        gateway.wait_ready()
        return gateway

    return start


@pytest.fixture
def both(start_grpc: Callable[..., Gateway]) -> Gateway:
    return start_grpc(logged="all")


@pytest.fixture
def call(grpc_listener: socket.socket) -> Iterator[Caller]:
    with ExitStack() as stack:
        yield stack.enter_context(grpcs.calling(f"127.0.0.1:{grpc_listener.getsockname()[1]}"))
