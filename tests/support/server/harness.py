"""The real app over a real store and real blobs, on a free loopback port, in a thread of its own.

Tests of one module share a plane: each has a namespace of its own in it, which its `Harness` and its clients fill in.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import uvicorn
from starlette.applications import Starlette

from mizzen.blobs.file_store import FileBlobs
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Condition, Meta, Ref, Resource, format_time
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.runs.checkpoints import CheckpointStore
from mizzen.server.admin.metrics import PlaneStats
from mizzen.server.admission import namespaced_store
from mizzen.server.admission.namespaced_store import NamespacedStore
from mizzen.server.app import create_app
from mizzen.server.auth.oidc import OidcAuthenticator
from mizzen.server.auth.role_bindings import RoleBindingCache
from mizzen.server.http.context import ServerContext
from mizzen.stores.records.protocol import AuditEntry, AuditLog, AuditQuery
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore

TOKEN = "a-token-for-tests-only"
INFERENCE = "http://127.0.0.1:1"
ROOT = "/apis/mizzen.dev/v1alpha1"
HERE = f"{ROOT}/namespaces/{{namespace}}"
"""The objects of a client's namespace, whose name the client fills in."""

NAMESPACE_NUMBERS = itertools.count(1)

T = TypeVar("T")


class Client(httpx2.Client):
    """Sends requests about one namespace: its name replaces `{namespace}` in a path, and is the `namespace` parameter
    of requests to /model, /graph and /secret that do not give another."""

    def __init__(self, url: str, namespace: str, headers: Mapping[str, str]) -> None:
        # Without `verify=False` it reads the certificate authorities, which takes longer than most tests.
        super().__init__(base_url=url, headers=headers, timeout=60, trust_env=False, verify=False)
        self.namespace = namespace

    def path(self, path: str) -> str:
        """Returns the path as requests send it, and as responses name it."""
        path = path.replace("{namespace}", self.namespace)
        if self.namespace == DEFAULT_NAMESPACE or not re.match(r"/(model|graph|secret)\b", path):
            return path
        if re.search(r"[?&]namespace=", path):
            return path
        return f"{path}{'&' if '?' in path else '?'}namespace={self.namespace}"

    def build_request(self, method: str, url: httpx2.URL | str, **more: Any) -> httpx2.Request:
        path = self.path(str(url))
        if more.get("params") is not None:  # which would replace the query of the path
            more["params"] = httpx2.QueryParams(httpx2.URL(path).query).merge(more["params"])
        return super().build_request(method, path, **more)


@dataclass(slots=True)
class Harness:
    """A running control API, seen from one namespace. `store` lives in the server's loop: use it through `run`."""

    url: str
    store: SqliteStore
    app: Starlette
    folder: Path
    """Where the plane keeps its data."""
    files: Path
    """Where `file` writes."""
    loop: asyncio.AbstractEventLoop
    namespace: str = DEFAULT_NAMESPACE
    clients: list[Client] = field(default_factory=list)
    not_ready: bool = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @contextmanager
    def view(self, files: Path) -> Iterator[Harness]:
        """Yields the same API for one test, seen from a new namespace. `files`: where `file` writes."""
        namespace = f"test-{next(NAMESPACE_NUMBERS)}"
        self.run(namespaced_store.ensure(self.store, namespace, "system"))
        view = replace(self, namespace=namespace, files=files, clients=[])
        try:
            yield view
        finally:
            view.close()

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def client(self, token: str | None = TOKEN, **headers: str) -> Client:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        client = Client(self.url, self.namespace, headers)
        self.clients.append(client)
        return client

    def ref(self, kind: str, name: str) -> Ref:
        return Ref(kind, name, self.namespace)

    def user(self, name: str) -> str:
        """A token of a user who is made for it, if need be."""
        admin = self.client()
        assert admin.post("/user", json={"name": name}).status_code in (201, 409)
        answer = admin.post(f"/user/{name}/token")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def permit(self, name: str, *verbs: str, subjects: Sequence[str], namespace: str = "", **target: str) -> None:
        """A RoleBinding, about the whole namespace when it names nothing else."""
        namespace = namespace or self.namespace
        spec = {"subjects": list(subjects), "verbs": list(verbs), "target": target or {"namespace": namespace}}
        resource = Resource("RoleBinding", Meta(name, namespace), spec)
        self.run(self.store.create(resource, "admin"))

    def forbid(self, name: str, namespace: str = "") -> None:
        self.run(self.store.delete(Ref("RoleBinding", name, namespace or self.namespace), "admin"))

    def audited(self, **query: Any) -> tuple[AuditEntry, ...]:
        """Newest first."""
        return self.run(self.store.audit.entries(AuditQuery(**query), limit=10_000))

    def file(self, name: str, content: str = "content") -> str:
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return str(path)

    def make_ready(self, server: str, version: str, namespace: str = "", signature: Signature | None = None) -> None:
        """What controllers would report once the server answers."""
        condition = Condition(
            type="Ready", status="True", reason="Serving", last_transition_time=format_time(datetime.now(UTC))
        )
        status = InferenceModelStatus(
            conditions=(condition,),
            serving_version=version,
            url=f"{INFERENCE}/v2/models/{server}",
            signature=signature,
            ready_replicas=1,
        )

        async def write() -> None:
            resource = await self.store.get(Ref("InferenceModel", server, namespace or self.namespace))
            await self.store.update_status(resource.with_status(status), "system")

        self.run(write())

    def release(self, ref: Ref) -> None:
        """What controllers do when nothing is left of an object."""

        async def write() -> None:
            resource = await self.store.get(ref)
            await self.store.update(replace(resource, meta=replace(resource.meta, finalizers=())), "system")

        self.run(write())


class Server(uvicorn.Server):
    """Stops at once: the server of uvicorn polls every 0.1 seconds, several times per stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # each sets the `Date` of responses
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), 1)
                self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        deadline = time.monotonic() + 5
        while (state.connections or state.tasks) and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
        for task in state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


async def fake_logs(
    workload: Resource, *, tail: int | None, follow: bool, places: dict[int, str] | None, build: bool = False
) -> AsyncIterator[bytes]:
    begin = int((places or {}).get(0, "0-0").partition("-")[0])
    for number in range(begin, 3 if tail is None else tail):
        if places is not None:
            places[0] = f"{number + 1}-0"
        yield f"{workload.meta.name} line {number}\n".encode()
    if follow:
        await asyncio.Event().wait()


@contextmanager
def serving(
    folder: Path,
    *,
    loopback: bool = True,
    anonymous: bool = True,
    oidc: OidcAuthenticator | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    audit: Callable[[AuditLog], AuditLog] = lambda log: log,
    keep_events: int = 10_000,
    change: Callable[[Starlette], None] | None = None,
    more: Mapping[str, Any] | None = None,
    inside: PlaneStats | None = None,
) -> Iterator[Harness]:
    """`audit` may replace the store's own audit. `more`: further fields of the ServerContext."""
    # Made anew from its number, as in a plane: only then asyncio knows that it is TCP, and sends at once.
    listener = socket.socket(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    started: list[Harness] = []
    ready = threading.Event()
    stop: list[asyncio.Event] = []

    async def main() -> None:
        store = await SqliteStore.open(
            folder / "mizzen.db",
            clock=lambda: datetime.now(UTC),
            new_id=lambda: uuid.uuid4().hex,
            keep_events=keep_events,
        )
        await namespaced_store.create_missing(store, await store.namespaces())
        blobs = FileBlobs(folder / "blobs")
        context = ServerContext(
            store=NamespacedStore(store),
            blobs=blobs,
            identities=store.identities,
            secrets=store.secrets,
            vault=Vault(store.secrets, folder / "secret-key"),
            audit=audit(store.audit),
            bindings=RoleBindingCache(store),
            inference_url=INFERENCE,
            checkpoints=CheckpointStore(blobs.documents),
            data_dir=folder,
            logs=fake_logs,
            ready=lambda: not started[0].not_ready,
            anonymous=anonymous,
            now=now,
            **(more or {}),
        )
        app = create_app(context, admin_token=TOKEN, loopback=loopback, oidc=oidc, internals=inside)
        if change is not None:
            change(app)
        port = listener.getsockname()[1]
        started.append(Harness(f"http://127.0.0.1:{port}", store, app, folder, folder, asyncio.get_running_loop()))
        server = Server(uvicorn.Config(app, lifespan="on", log_config=None, ws="none"))
        stop.append(server.stop)
        ready.set()
        try:
            await server.serve([listener])
        finally:
            await store.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(60)
    try:
        yield started[0]
    finally:
        started[0].close()
        started[0].loop.call_soon_threadsafe(stop[0].set)
        thread.join(60)
        listener.close()
        assert not thread.is_alive()


def deploy(
    plane: Harness, admin: httpx2.Client, name: str = "iris", content: str = "one", *, ready: bool = True
) -> str:
    """A model with one more version, served. The id of its server."""
    admin.post("/model", json={"name": name})
    path = plane.file("model.joblib", content)
    version = admin.post(f"/model/{name}/version", json={"path": path}).json()["version"]
    server = str(admin.post(f"/model/{name}/serve/{version}").json()["id"])
    if ready:
        plane.make_ready(server, version)
    return server
