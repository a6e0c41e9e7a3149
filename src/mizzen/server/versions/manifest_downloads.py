"""Archives that manifests name, fetched by the plane and registered as versions: one at a time for each InferenceModel.

A download goes on where it broke off, several times, before it counts as failed (`blobs/ingest/download.py`); one
that failed is begun again after a while, ever more rarely. What is fetched is compared with its sha256 before
anything is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mizzen.access.policy import Actor
from mizzen.blobs.fs.cancellable_thread import in_thread
from mizzen.blobs.ingest import download
from mizzen.blobs.ingest.spool import Spool
from mizzen.errors import AlreadyExists, Forbidden, MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.rules.archive_progress import Progress
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, ModelFile
from mizzen.reconcile.controller import find
from mizzen.server.admission import create_guards, decode
from mizzen.server.auth.authentication import ADMIN
from mizzen.server.http.context import Plane
from mizzen.server.models import views
from mizzen.server.versions import framework_detection, ingest, registration, requirements, routes, sources
from mizzen.server.versions.ingest import Gathered
from mizzen.server.versions.sources import Download, LocalFiles, Said

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Fetch:
    """What one InferenceModel waits for."""

    entry: ModelFile
    said: Said
    by: str
    failure: str = ""
    spool: Spool | None = None
    task: asyncio.Task[None] | None = field(default=None, compare=False)

    def same(self, other: _Fetch) -> bool:
        return (self.entry, self.said, self.by) == (other.entry, other.said, other.by)


class Fetches:
    """A `Fetching`, within a running loop."""

    def __init__(
        self, plane: Callable[[], Plane], changed: Callable[[Ref], None], *, first_pause: float = FIRST_PAUSE
    ) -> None:
        """`changed` is called with the InferenceModel whose progress is another."""
        self._plane = plane
        self._changed = changed
        self._first_pause = first_pause
        self._fetches: dict[Ref, _Fetch] = {}

    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> Progress:
        said = Said({"framework": spec.framework_type} if spec.framework_type else {})
        wanted = _Fetch(entry, said, resource.meta.annotations.get(ACTOR_ANNOTATION, ""))
        fetch = self._fetches.get(resource.ref)
        if fetch is None or not fetch.same(wanted) or (fetch.task is not None and fetch.task.done()):
            self.forget(resource.ref)
            fetch = self._fetches[resource.ref] = wanted
            model = Ref("Model", spec.model_name, resource.meta.namespace)
            fetch.task = asyncio.create_task(self._run(fetch, resource.ref, model))
        url = download.shown(entry.download_url)
        if fetch.failure:
            return Progress("failed", f"version {entry.version}: {fetch.failure}")
        come = f", {fetch.spool.size / 2**20:.0f} MiB so far" if fetch.spool is not None and fetch.spool.size else ""
        return Progress("fetching", f"version {entry.version} is being fetched from {url}{come}")

    def forget(self, ref: Ref) -> None:
        fetch = self._fetches.pop(ref, None)
        if fetch is not None and fetch.task is not None:
            fetch.task.cancel()

    async def close(self) -> None:
        tasks = [fetch.task for fetch in self._fetches.values() if fetch.task is not None]
        for ref in tuple(self._fetches):
            self.forget(ref)
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, fetch: _Fetch, ref: Ref, model: Ref) -> None:
        pause = self._first_pause
        while True:
            try:
                await self._once(fetch, model)
            except MizzenError as error:
                log.warning("%s: version %s: %s", ref, fetch.entry.version, error)
                fetch.failure = error.message
                self._changed(ref)
            else:
                self._changed(ref)
                return
            finally:
                fetch.spool = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _once(self, fetch: _Fetch, model: Ref) -> None:
        plane, entry = self._plane(), fetch.entry
        actor = ADMIN if fetch.by == ADMIN.name else Actor(fetch.by)
        gathered = await self._gathered(plane, fetch, actor)
        owner = await _model(plane, model, fetch.said, actor)
        framework, entrypoint = await asyncio.to_thread(
            framework_detection.recognised, fetch.said, gathered.entries, plane.blobs.path, owner.spec.get("framework"),
            plane.default_framework,
        )  # fmt: skip
        said = await asyncio.to_thread(requirements.completed, fetch.said, gathered.entries, plane.blobs.path)
        # Who wrote the manifest had to be one who may vouch for code (`server/admission/privileged_fields.py`).
        new = routes.New(
            model, gathered, said, framework, entrypoint, actor, trusted=True, capabilities=plane.capabilities,
            now=plane.now(),
        )  # fmt: skip
        try:
            await registration.add(plane, new.resource(entry.version), actor)
        except AlreadyExists:
            log.info("%s has a version %s by now", model, entry.version)

    async def _gathered(self, plane: Plane, fetch: _Fetch, actor: Actor) -> Gathered:
        def began(spool: Spool) -> None:
            fetch.spool = spool

        entry = fetch.entry
        body = {"downloadURL": entry.download_url, "insecureSkipVerify": entry.insecure_skip_verify}
        source, _ = sources.decode(body | ({"sha256sum": entry.sha256sum} if entry.sha256sum else {}), {})
        match source:
            case Download():
                return await ingest.downloaded(plane, source, actor, None, began)
            case LocalFiles() if actor.admin:
                return await in_thread(ingest.local, plane, source, None)
        raise Forbidden("only an admin may name files of the plane's machine")


async def _model(plane: Plane, ref: Ref, said: Said, actor: Actor) -> Resource:
    """Made when it is absent."""
    there = await find(plane.store, ref)
    if there is not None:
        return there
    kind = catalog.BY_NAME["Model"]
    spec = {"framework": said.framework} if said.framework else {}
    draft = decode.decode(kind, views.manifest(kind.name, ref, spec), namespace=ref.namespace)
    new = decode.created(kind, draft, ref.namespace, actor)
    try:
        return await plane.store.create(new, actor.name, guard=create_guards.admits(new))
    except AlreadyExists:
        return await plane.store.get(ref)
