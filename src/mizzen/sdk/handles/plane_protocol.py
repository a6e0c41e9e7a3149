"""The interface through which handles call the synchronous plane that created them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.packaging.tensors import Prediction

T = TypeVar("T")


class SynchronousPlane(Protocol):
    """`mizzen.Plane`, without the import cycle: a plane creates handles, and handles call their plane."""

    @property
    def calls(self) -> AsyncPlane: ...

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]: ...

    def predict(
        self, name: str, inputs: Any, *, outputs: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> Prediction: ...
