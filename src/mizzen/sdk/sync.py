"""Plane and Model for programs without an event loop: scripts, notebooks, the CLI. Thin over `client.AsyncPlane`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from mizzen import errors
from mizzen.sdk import deployment, locate, objects, stopping
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.loop import LoopThread
from mizzen.sdk.tether import KeptTether
from mizzen.supervisor.client import SupervisorGone
from mizzen.supervisor.home import Home

if TYPE_CHECKING:
    from mizzen.sdk.payload import Prediction

T = TypeVar("T")

_START_SETTINGS: Final = ("host", "port", "inference_port", "gateways")


def start(dir: str | Path | None = None, *, detach: bool = False, **settings: Any) -> Plane:  # noqa: A002
    """Start a plane in the data dir `dir` (default .mizzen) and connect to it.

    It ends with this process, unless `detach`. A plane that already runs there is only connected to. Settings are the
    flags of `mizzen up`: host, port, inference_port, gateways; port=0 picks a free one.
    """
    unknown = [name for name in settings if name not in _START_SETTINGS]
    if unknown:
        raise errors.Invalid(f"no setting '{unknown[0]}' here", hint="settings are " + ", ".join(_START_SETTINGS))
    data_dir = locate.data_dir_of(dir).absolute()
    if locate.running(data_dir):
        return Plane(locate.in_data_dir(data_dir))
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    # -P: the current folder must not shadow modules of the plane.
    command = [sys.executable, "-P", "-m", "mizzen.cli.main", "up", "--detach", "--data-dir", str(data_dir), *flags]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _start_failure(done.stderr)
    try:
        tether = None if detach else KeptTether(Home.of(data_dir))
    except SupervisorGone as error:
        raise errors.Unavailable("the plane ended right after its start", hint=f"see {data_dir / 'logs'}") from error
    return Plane(locate.in_data_dir(data_dir), tether)


def connect(url: str | None = None, token: str | None = None) -> Plane:
    """Connect to a running plane: at `url`, else where MIZZEN_URL says, else on this machine by its data dir."""
    return Plane(locate.find(url, token))


class Plane:
    """A running plane. As a context manager it ends, at the end, the plane that `start` started."""

    def __init__(self, place: locate.Place, tether: KeptTether | None = None) -> None:
        self.place = place
        self._tether = tether
        self._loop = LoopThread()
        self._plane = AsyncPlane(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tether is not None:
            self.stop()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"<mizzen.Plane {self.place.control_url}>"

    @property
    def url(self) -> str:
        return self.place.control_url

    @property
    def inference_url(self) -> str:
        return self._loop.run(self._plane.inference_url())

    def stop(self) -> None:
        """End the plane, whoever started it. Only possible on its own machine."""
        if self.place.data_dir is None:
            raise errors.BadRequest("only a plane on this machine can be stopped from here")
        stopping.stop(Home.of(self.place.data_dir))
        self.close()

    def close(self) -> None:
        """Let go of the plane's connections; it runs on, or ends with this process when `start` started it."""
        if not self._loop.closed:
            self._loop.run(self._plane.close())
            self._loop.close()

    def deploy(
        self,
        name: str,
        model: Any,
        framework: str | None = None,
        *,
        promote: bool = True,
        wait: bool = True,
        timeout: float = deployment.TIMEOUT,
        progress: deployment.Progress = deployment.silent,
    ) -> deployment.Deployment:
        """Serve a fitted estimator, a function, a class, a path or 'module:object' as the next version of `name`."""
        with objects.opened(model) as source:
            return self._loop.run(
                self._plane.deploy(
                    name,
                    source.path,
                    framework=framework or source.framework,
                    entrypoint=source.entrypoint,
                    promote=promote,
                    wait=wait,
                    timeout=timeout,
                    progress=progress,
                )
            )

    def undeploy(self, name: str, version: str | int | None = None) -> list[str]:
        return self._loop.run(self._plane.undeploy(name, None if version is None else str(version)))

    def predict(
        self, name: str, inputs: Any, *, outputs: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> Prediction:
        return self._loop.run(self._plane.predict(name, inputs, outputs=outputs, timeout_ms=timeout_ms))

    def model(self, name: str) -> Model:
        return Model(self, name)

    def models(self) -> list[Model]:
        return [Model(self, item["metadata"]["name"]) for item in self._loop.run(self._plane.models())]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object of a kind: Model, ModelVersion, InferenceModel, …, in any case, singular or plural."""
        return self._loop.run(self._plane.get(plural(kind), name))

    def list(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._loop.run(self._plane.list(plural(kind)))["items"]
        return items

    def watch(self, kind: str) -> Iterator[dict[str, Any]]:
        return self._loop.iterate(self._plane.watch(plural(kind)))

    def logs(self, name: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        return self._loop.iterate(self._plane.logs(name, tail=tail, follow=follow))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, such as one of `plane.calls`, on this plane's loop."""
        return self._loop.run(work)

    @property
    def calls(self) -> AsyncPlane:
        """The asynchronous client below, for what this class does not offer."""
        return self._plane


class Model:
    """One model of a plane, by name. It need not exist yet."""

    def __init__(self, plane: Plane, name: str) -> None:
        self.plane = plane
        self.name = name

    def __repr__(self) -> str:
        return f"<mizzen.Model {self.name}>"

    @property
    def versions(self) -> list[str]:
        """The versions registered, in the order they were made."""
        return [item["spec"]["version"] for item in self.plane.run(self.plane.calls.versions(self.name))]

    @property
    def current(self) -> str | None:
        """The version that answers to the model's name."""
        current = self.plane.get("models", self.name).get("status", {}).get("current") or {}
        return current.get("version")

    def predict(
        self, inputs: Any, *, outputs: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> Prediction:
        return self.plane.predict(self.name, inputs, outputs=outputs, timeout_ms=timeout_ms)

    def serve(self, version: str | int, replicas: int = 1) -> str:
        """Serve one more version and wait until it is ready. The name of its server."""

        async def served() -> str:
            server = await self.plane.calls.serve(self.name, str(version), replicas)
            await self.plane.calls.wait_ready(server)
            return server

        return self.plane.run(served())

    def promote(self, version: str | int) -> None:
        """Make a version the one that answers to the model's name."""
        self.plane.run(self.plane.calls.promote(self.name, str(version)))

    def history(self) -> list[dict[str, Any]]:
        return self.plane.run(self.plane.calls.history(self.name))


def plural(kind: str) -> str:
    word = kind.lower()
    return word if word.endswith("s") else f"{word}s"


def _start_failure(stderr: str) -> errors.MizzenError:
    """What `mizzen up` printed, as the error it was."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = {key: text for key, _, text in (line.partition(": ") for line in lines) if key in ("error", "hint")}
    return errors.Unavailable(
        said.get("error") or "\n".join(lines) or "the plane did not start", hint=said.get("hint", "")
    )
