"""Plane: a synchronous client for scripts and notebooks, a thin layer over `client.AsyncPlane`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from mizzen import errors
from mizzen.sdk.api.jobs import JobRef
from mizzen.sdk.api.resources import Selection
from mizzen.sdk.api.session import DEFAULT_NAMESPACE
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import locate
from mizzen.sdk.connection import stop as connection_stop
from mizzen.sdk.connection.tether import KeptTether
from mizzen.sdk.handles.graph import Graph
from mizzen.sdk.handles.job import Job
from mizzen.sdk.handles.loop_thread import LoopThread
from mizzen.sdk.handles.model import Model
from mizzen.sdk.operations import deploy as operations_deploy
from mizzen.sdk.packaging import python_objects
from mizzen.sdk.packaging import requirements as packaging_requirements
from mizzen.supervisor.data_dir import Home

if TYPE_CHECKING:
    from mizzen.manifests.lint import Checked
    from mizzen.sdk.operations.apply import Manifests
    from mizzen.sdk.packaging.requirements import Required
    from mizzen.sdk.packaging.tensors import Prediction

P = ParamSpec("P")
T = TypeVar("T")


def _synchronous(
    call: Callable[Concatenate[AsyncPlane, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Plane, P], T]:
    """Return a method that runs a call of the asynchronous client, with the same signature and docstring."""

    @functools.wraps(call)
    def run(plane: Plane, /, *args: P.args, **keywords: P.kwargs) -> T:
        return plane.run(call(plane.calls, *args, **keywords))

    return run


class Plane:
    """A running plane. As a context manager, it stops on exit the plane that `start` started."""

    def __init__(
        self, place: locate.PlaneAddress, tether: KeptTether | None = None, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        self.place = place
        self._tether = tether
        self._loop = LoopThread()
        self._plane = AsyncPlane(place, namespace=namespace)

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
        """The address of the control API."""
        return self.place.control_url

    @property
    def inference_url(self) -> str:
        """The address of the inference API."""
        return self._loop.run(self._plane.inference_url())

    def stop(self, *, keep_training: bool = False) -> None:
        """Stop the plane, even one that another process started. Only possible on the plane's own machine. With
        `keep_training`, training jobs keep running, and the next plane started in the data dir takes them over."""
        if self.place.data_dir is None:
            raise errors.BadRequest("only a plane on this machine can be stopped from here")
        connection_stop.stop(Home.of(self.place.data_dir), keep_training=keep_training)
        self.close()

    def close(self) -> None:
        """Close the connections. The plane keeps running, or ends with this process if `start` started it."""
        if not self._loop.closed:
            self._loop.run(self._plane.close())
            self._loop.close()

    def deploy(
        self,
        name: str,
        model: Any,
        framework: str | None = None,
        *,
        requirements: Required | None = None,
        python: str | None = None,
        promote: bool = True,
        wait: bool = True,
        timeout: float = operations_deploy.TIMEOUT,
        progress: operations_deploy.Progress = operations_deploy.silent,
    ) -> operations_deploy.Deployment:
        """Serve a fitted estimator, a function, a class, a path or 'module:object' as the next version of `name`.

        `requirements`: the only packages it runs with, as for pip, or a file of them; `python`: such as 3.12.
        """
        with python_objects.open_source(model) as source:
            return self._loop.run(
                self._plane.deploy(
                    name,
                    source.path,
                    framework=framework or source.framework,
                    entrypoint=source.entrypoint,
                    requirements=packaging_requirements.with_pickler(requirements, source.framework, source.path),
                    python=python,
                    promote=promote,
                    wait=wait,
                    timeout=timeout,
                    progress=progress,
                )
            )

    def undeploy(self, name: str, version: str | int | None = None, *, force: bool = False) -> builtins.list[str]:
        """Stop serving a model or one version of it, wait until its processes have ended, and return the servers'
        names.

        Raises Conflict if that version is current while others are served, unless `force`.
        """
        return self._loop.run(self._plane.undeploy(name, None if version is None else str(version), force=force))

    scale = _synchronous(AsyncPlane.scale)
    autoscale = _synchronous(AsyncPlane.autoscale)

    def predict(
        self, name: str, inputs: Any, *, outputs: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> Prediction:
        """Call a model (`iris`), a version of it (`iris:2`, `iris@prod`) or a graph; `outputs` limits which are
        returned.

        `inputs`: rows (lists, an array, a data frame), or a map from input names to rows. Raises NotFound, BadRequest.
        """
        return self._loop.run(self._plane.predict(name, inputs, outputs=outputs, timeout_ms=timeout_ms))

    feedback = _synchronous(AsyncPlane.feedback)

    def model(self, name: str) -> Model:
        """Return a handle on the model with this name, whether or not it exists."""
        return Model(self, name)

    def graph(self, name: str) -> Graph:
        """Return a handle on the graph with this name, whether or not it exists."""
        return Graph(self, name)

    def job(self, id: str) -> Job:  # noqa: A002 - the plane's name for it
        """Return the job set with this id. Raises NotFound."""
        return Job(self, self._loop.run(self._plane.find_job(id)))

    def jobs(
        self, model: str | None = None, version: str | int | None = None, *, state: str | None = None
    ) -> builtins.list[Job]:
        """List running and waiting job sets, newest first: all, or those of a model or version. `state`: all, ongoing,
        succeeded or failed."""
        found = self._loop.run(self._plane.jobs(model, version, state=state))
        return [Job(self, JobRef(item["model"], item.get("version") or "", item["id"])) for item in found]

    def models(self, labels: Selection = None) -> builtins.list[Model]:
        """List all models, or those with these labels."""
        return [Model(self, item["metadata"]["name"]) for item in self._loop.run(self._plane.models(labels))]

    get = _synchronous(AsyncPlane.get)

    def list(
        self,
        kind: str,
        *,
        labels: Selection = None,
        fields: Selection = None,
        limit: int | None = None,
        namespace: str | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """List objects of a kind, at most `limit`. Selectors are texts (`a=b,c!=d`) or maps of labels that must be
        equal."""
        found = self._plane.list(kind, labels=labels, fields=fields, limit=limit, namespace=namespace)
        items: builtins.list[dict[str, Any]] = self._loop.run(found)["items"]
        return items

    def objects(
        self, kind: str, *, labels: Selection = None, fields: Selection = None, namespace: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Iterate over the objects that `list` returns, fetching pages as needed."""
        return self._loop.iterate(self._plane.objects(kind, labels=labels, fields=fields, namespace=namespace))

    delete = _synchronous(AsyncPlane.remove)
    apply = _synchronous(AsyncPlane.apply)
    diff = _synchronous(AsyncPlane.diff)

    def lint(self, manifests: Manifests) -> builtins.list[Checked]:
        """Return the errors and warnings for each object of a path, a YAML text or data."""
        return self._plane.lint(manifests)

    def explain(self, path: str) -> dict[str, Any]:
        """Describe a kind and its fields, or one field: `model`, `model.track`."""
        return self._plane.explain(path)

    compare = _synchronous(AsyncPlane.compare)
    revisions = _synchronous(AsyncPlane.revisions)
    restore = _synchronous(AsyncPlane.restore)
    wait = _synchronous(AsyncPlane.wait)

    def watch(self, kind: str, *, namespace: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield {"type", "object"}: ADDED for each existing object, then every change, without end."""
        return self._loop.iterate(self._plane.watch(kind, namespace=namespace))

    def logs(self, name: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Yield the output of an InferenceModel's replicas in chunks of whole lines; with `follow`, until it is
        deleted."""
        return self._loop.iterate(self._plane.logs(name, tail=tail, follow=follow))

    usage = _synchronous(AsyncPlane.usage)
    usage_history = _synchronous(AsyncPlane.usage_history)
    whoami = _synchronous(AsyncPlane.whoami)
    users = _synchronous(AsyncPlane.users)

    def add_user(self, name: str) -> None:
        """Add a user. The user then needs a token. Raises AlreadyExists."""
        self._loop.run(self._plane.add_user(name))

    delete_user = _synchronous(AsyncPlane.delete_user)

    def create_token(self, user: str, *, expires_in: str | None = None, note: str = "") -> str:
        """Create a token for a user; it is shown only once. `expires_in`: its lifetime, such as `30d`."""
        return str(self._loop.run(self._plane.create_token(user, expires_in=expires_in, note=note))["token"])

    tokens = _synchronous(AsyncPlane.tokens)
    revoke_token = _synchronous(AsyncPlane.revoke_token)
    permit = _synchronous(AsyncPlane.permit)
    forbid = _synchronous(AsyncPlane.forbid)

    def secrets(self) -> builtins.list[dict[str, Any]]:
        """List the names and keys of secrets; never their values."""
        return self._loop.run(self._plane.secrets())

    def set_secret(self, name: str, data: Mapping[str, str], *, replace: bool = False) -> None:
        """Add or change these values; with `replace`, delete all others."""
        self._loop.run(self._plane.set_secret(name, data, replace=replace))

    def delete_secret(self, name: str) -> None:
        """Delete a secret with all its values. Raises NotFound."""
        self._loop.run(self._plane.delete_secret(name))

    def audit(self, *, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield audit entries, newest first; `query` may hold actor, namespace, kind, name, allowed, since and
        until."""
        return self._loop.iterate(self._plane.audit(limit=limit, **query))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, such as one of `plane.calls`, on this plane's loop."""
        return self._loop.run(work)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator, such as one of `plane.calls`, as they arrive."""
        return self._loop.iterate(items)

    @property
    def calls(self) -> AsyncPlane:
        """The underlying asynchronous client, for calls that this class does not offer."""
        return self._plane
