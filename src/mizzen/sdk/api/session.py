"""The base of all API calls: one plane, one namespace, and requests to the plane's two APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from mizzen.sdk.connection import warnings
from mizzen.sdk.connection.locate import PlaneAddress
from mizzen.sdk.connection.transport import PATIENCE, Transport
from mizzen.sdk.connection.warnings import Warned

ROOT: Final = "/apis/mizzen.dev/v1alpha1"
DEFAULT_NAMESPACE: Final = "default"


class Calls:
    """A session with one plane. Create and use it on one event loop; `close` it, or use it as a context manager."""

    def __init__(
        self,
        place: PlaneAddress,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        patience: float = PATIENCE,
        on_warning: Warned = warnings.as_python,
    ) -> None:
        self.place = place
        self.namespace = namespace
        self._patience = patience
        self._on_warning = on_warning
        self._control = Transport(
            place.control_url, place.token, hint=place.hint, patience=patience, on_warning=on_warning, control=True,
            token_from=place.token_from,
        )  # fmt: skip
        self._inference: Transport | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._control.close()
        if self._inference is not None:
            await self._inference.close()

    async def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Send a request to the control API and return the JSON response. `more` may hold `body`, `params` and
        `timeout`."""
        return await self._control.json(method, path, **more)

    async def answer(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """Send a request and return the status code and the JSON response."""
        return await self._control.answer(method, path, **more)

    async def pages(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield each page of a list."""
        token = None
        while True:
            page = await self.request("GET", path, params={**params, "continue": token})
            yield page
            token = page.get("metadata", {}).get("continue")
            if not token:
                return

    def warn(self, text: str) -> None:
        """Emit a warning in the same way as the plane's own warnings."""
        self._on_warning(text)

    def within(self, namespace: str | None = None) -> dict[str, str]:
        """Return the namespace as a query parameter, for paths that do not contain one."""
        wanted = namespace or self.namespace
        return {} if wanted == DEFAULT_NAMESPACE else {"namespace": wanted}

    async def inference_api(self) -> Transport:
        if self._inference is None:
            url = self.place.inference_url or str((await self.request("GET", "/"))["inference"])
            self._inference = Transport(
                url, self.place.token, hint=self.place.hint, patience=self._patience, token_from=self.place.token_from,
                data_dir=self.place.data_dir,
            )  # fmt: skip
        return self._inference


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, for a request that omits the others."""
    return {name: value for name, value in fields.items() if value is not None}


def escape(name: str | int) -> str:
    """Escape a name as one path segment."""
    return quote(str(name), safe="")
