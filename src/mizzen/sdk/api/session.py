"""What every part of the client stands on: one plane, one namespace, and requests to the plane's two APIs."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from mizzen.sdk.connection import warnings
from mizzen.sdk.connection.locate import Place
from mizzen.sdk.connection.transport import PATIENCE, Transport
from mizzen.sdk.connection.warnings import Warned

ROOT: Final = "/apis/mizzen.dev/v1alpha1"
DEFAULT_NAMESPACE: Final = "default"


class Calls:
    """Made and used on one event loop; `close` it, or use it as a context manager."""

    def __init__(
        self,
        place: Place,
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
        """Any call of the control API that answers JSON: `body`, `params` and `timeout` may be given."""
        return await self._control.json(method, path, **more)

    async def answer(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """As `request`, with the number of the answer."""
        return await self._control.answer(method, path, **more)

    def warn(self, text: str) -> None:
        """Something odd, told as the plane's own warnings are."""
        self._on_warning(text)

    def within(self, namespace: str | None = None) -> dict[str, str]:
        """The namespace as a parameter of the paths that name none."""
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


def escaped(name: str | int) -> str:
    """As one segment of a path."""
    return quote(str(name), safe="")
