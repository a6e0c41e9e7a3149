from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mizzen.gateway.process import GatewayLimits
from mizzen.runtime.frameworks.model import LoadedModel
from tests.support.gateway.guarded import Clock, permit, ready, table
from tests.support.gateway.harness import (
    LIMITS,
    Gateway,
    Runtime,
    listening,
    publish,
    short_folder,
    table_of,
    until,
)
from tests.support.gateway.models import ModelRuntime


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def start_runtime(folder: Path) -> Iterator[Callable[..., Runtime]]:
    with ExitStack() as stack:

        def start(name: str = "0", hello: dict[str, Any] | None = None) -> Runtime:
            runtime = Runtime(str(folder / f"{name}.sock"), hello)
            stack.callback(runtime.close)
            return runtime

        yield start


@pytest.fixture
def serve_model(folder: Path, start_gateway: Callable[..., Gateway]) -> Iterator[Callable[[LoadedModel], Gateway]]:
    """A gateway with the name `m`, ready, with this model behind it."""
    with ExitStack() as stack:

        def start(model: LoadedModel, **table: Any) -> Gateway:
            runtime = ModelRuntime(str(folder / "model.sock"), model)
            stack.callback(runtime.close)
            publish(folder / "table.json", table_of(runtime.address, **table))
            gateway = start_gateway()
            gateway.wait_ready()
            return gateway

        yield start


@pytest.fixture
def runtime(start_runtime: Callable[..., Runtime]) -> Runtime:
    return start_runtime()


@pytest.fixture
def start_gateway(folder: Path) -> Iterator[Callable[..., Gateway]]:
    """A gateway on the table in `folder`; all that one test starts share one listening socket, unless they are given
    another."""
    with listening() as shared, ExitStack() as stack:

        def start(limits: GatewayLimits = LIMITS, *, listener: socket.socket = shared, **more: Any) -> Gateway:
            gateway = Gateway(listener, folder / "table.json", limits, **more)
            stack.callback(gateway.close)
            return gateway

        yield start


@pytest.fixture
def grpc_listener() -> Iterator[socket.socket]:
    with listening() as listener:
        yield listener


@pytest.fixture
def gateway(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    """The name `m`, ready, with `runtime` behind it."""
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    gateway.wait_ready()
    return gateway


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guarded(folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway], clock: Clock) -> Gateway:
    publish(folder / "table.json", table(runtime.address))
    permit(folder)
    gateway = start_gateway(anonymous=False, wall=clock)
    for name in ("iris", "iris-1", "lily", "rose"):
        until(partial(ready, gateway, name))
    return gateway
