"""Downloads archives that manifests name and registers them as versions: one at a time for each InferenceModel.

An interrupted download resumes several times before it counts as failed (`blobs/ingest/download.py`). A failed one
restarts after a growing pause. The sha256 of a download is verified before anything is kept.
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
from mizzen.kinds.rules.archive_progress import FetchProgress
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, ModelFile
from mizzen.reconcile.controller import find
from mizzen.server.admission import create_guards, decode
from mizzen.server.auth.authentication import ADMIN
from mizzen.server.http.context import ServerContext
from mizzen.server.models import views
from mizzen.server.versions import framework_detection, ingest, registration, requirements, routes, sources
from mizzen.server.versions.ingest import IngestedFiles
from mizzen.server.versions.sources import Download, LocalFiles, VersionOptions

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _ManifestDownload:
    """The download that one InferenceModel waits for."""

    entry: ModelFile
    options: VersionOptions
    author: str
    failure: str = ""
    spool: Spool | None = None
    task: asyncio.Task[None] | None = field(default=None, compare=False)

    def is_same(self, other: _ManifestDownload) -> bool:
        return (self.entry, self.options, self.author) == (other.entry, other.options, other.author)


class ManifestDownloads:
    """Implements `Fetching` on the running event loop."""

    def __init__(
        self, context: Callable[[], ServerContext], changed: Callable[[Ref], None], *, first_pause: float = FIRST_PAUSE
    ) -> None:
        """`changed` is called with each InferenceModel whose progress changed."""
        self._context = context
        self._changed = changed
        self._first_pause = first_pause
        self._downloads: dict[Ref, _ManifestDownload] = {}

    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> FetchProgress:
        options = VersionOptions({"framework": spec.framework_type} if spec.framework_type else {})
        wanted = _ManifestDownload(entry, options, resource.meta.annotations.get(ACTOR_ANNOTATION, ""))
        fetch = self._downloads.get(resource.ref)
        if fetch is None or not fetch.is_same(wanted) or (fetch.task is not None and fetch.task.done()):
            self.forget(resource.ref)
            fetch = self._downloads[resource.ref] = wanted
            model = Ref("Model", spec.model_name, resource.meta.namespace)
            fetch.task = asyncio.create_task(self._run(fetch, resource.ref, model))
        url = download.redact_url(entry.download_url)
        if fetch.failure:
            return FetchProgress("failed", f"version {entry.version}: {fetch.failure}")
        come = f", {fetch.spool.size / 2**20:.0f} MiB so far" if fetch.spool is not None and fetch.spool.size else ""
        return FetchProgress("fetching", f"downloading version {entry.version} from {url}{come}")

    def forget(self, ref: Ref) -> None:
        fetch = self._downloads.pop(ref, None)
        if fetch is not None and fetch.task is not None:
            fetch.task.cancel()

    async def close(self) -> None:
        tasks = [fetch.task for fetch in self._downloads.values() if fetch.task is not None]
        for ref in tuple(self._downloads):
            self.forget(ref)
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, fetch: _ManifestDownload, ref: Ref, model: Ref) -> None:
        pause = self._first_pause
        while True:
            try:
                await self._download_once(fetch, model)
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

    async def _download_once(self, fetch: _ManifestDownload, model: Ref) -> None:
        context, entry = self._context(), fetch.entry
        actor = ADMIN if fetch.author == ADMIN.name else Actor(fetch.author)
        ingested = await self._fetch_files(context, fetch, actor)
        owner = await _find_or_create_model(context, model, fetch.options, actor)
        framework, entrypoint = await asyncio.to_thread(
            framework_detection.detect, fetch.options, ingested.entries, context.blobs.path,
            owner.spec.get("framework"), context.default_framework,
        )  # fmt: skip
        options = await asyncio.to_thread(requirements.complete, fetch.options, ingested.entries, context.blobs.path)
        # Writing the manifest required the right to trust code (`server/admission/privileged_fields.py`).
        new = routes.UnnumberedVersion(
            model, ingested, options, framework, entrypoint, actor, trusted=True, capabilities=context.capabilities,
            now=context.now(),
        )  # fmt: skip
        try:
            await registration.add(context, new.resource(entry.version), actor)
        except AlreadyExists:
            log.info("%s already has version %s", model, entry.version)

    async def _fetch_files(self, context: ServerContext, fetch: _ManifestDownload, actor: Actor) -> IngestedFiles:
        def on_start(spool: Spool) -> None:
            fetch.spool = spool

        entry = fetch.entry
        body = {"downloadURL": entry.download_url, "insecureSkipVerify": entry.insecure_skip_verify}
        source, _ = sources.decode(body | ({"sha256sum": entry.sha256sum} if entry.sha256sum else {}), {})
        match source:
            case Download():
                return await ingest.ingest_download(context, source, actor, None, on_start)
            case LocalFiles() if actor.admin:
                return await in_thread(ingest.ingest_local, context, source, None)
        raise Forbidden("only an admin may name files on the plane's machine")


async def _find_or_create_model(context: ServerContext, ref: Ref, options: VersionOptions, actor: Actor) -> Resource:
    """The model; created if it is absent."""
    there = await find(context.store, ref)
    if there is not None:
        return there
    spec = {"framework": options.framework} if options.framework else {}
    draft = views.decode_object(ref, spec, "the model")
    new = decode.build_new(catalog.BY_NAME[ref.kind], draft, ref.namespace, actor)
    try:
        return await context.store.create(new, actor.name, guard=create_guards.guard_for(new))
    except AlreadyExists:
        return await context.store.get(ref)
