"""The parts of a plane for training: the blob store, the resources of the machine, and the controller."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from datetime import datetime

from mizzen.blobs import open_from_env
from mizzen.blobs.backed_store import BackedBlobs
from mizzen.blobs.disk_room import Room
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.object_store_credentials import Credentials
from mizzen.blobs.open_store import open_store
from mizzen.controllers.training.admission_queue import AdmissionQueue
from mizzen.controllers.training.controller import TrainingJobs
from mizzen.controllers.training.results import JobResults
from mizzen.engines.local.engine import count_cores
from mizzen.errors import MizzenError
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref
from mizzen.settings import Settings
from mizzen.stores.lookup import Lookup
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore

log = logging.getLogger(__name__)


async def blobs_of(settings: Settings, vault: Vault, room: Room) -> tuple[FileBlobs, Mapping[str, str]]:
    """The plane's blobs, and the variables that tell runners where they are, some of which are secrets."""
    keys = await _credentials(settings, vault)
    folder = settings.root / "blobs"
    url = settings.blob_store
    blobs = BackedBlobs(folder, open_store(url, keys), room) if url else FileBlobs(folder, room)
    await asyncio.to_thread(blobs.sweep)
    return blobs, open_from_env.variables(url, keys, os.environ)


def disk_limit_variables(settings: Settings) -> Mapping[str, str]:
    """Variables that make runners leave the plane enough disk space."""
    marks = {"LOW": settings.disk_low_bytes, "CRITICAL": settings.disk_critical_bytes}
    return {f"MIZZEN_DISK_{mark}_BYTES": str(size) for mark, size in marks.items()}


async def _credentials(settings: Settings, vault: Vault) -> Credentials:
    """The credentials of the remote blob store. Missing keys are only logged: files on the disk are served anyway."""
    credentials = Credentials(settings.blob_store_endpoint, settings.blob_store_region)
    if not settings.blob_store or not settings.blob_store_secret:
        return credentials
    try:
        keys = [
            await vault.reveal(DEFAULT_NAMESPACE, settings.blob_store_secret, key)
            for key in ("accessKeyId", "secretAccessKey")
        ]
    except MizzenError as error:
        log.warning("the blob store cannot be opened: %s; see the setting blob_store_secret", error)
        return credentials
    return Credentials(credentials.endpoint, credentials.region, *keys)


def build_controller(
    settings: Settings,
    store: SqliteStore,
    blobs: FileBlobs,
    context: Context,
    *,
    gpus: int,
    here: str,
    enqueue: Callable[[Ref], None],
    now: Callable[[], datetime],
) -> TrainingJobs:
    shares = AdmissionQueue(
        settings.training_cpus or count_cores(), settings.training_memory_bytes or _memory(), gpus, enqueue=enqueue
    )
    results = JobResults(settings.root, blobs.documents)
    return TrainingJobs(context, shares, results, Lookup(store.identities, store.secrets), now=now, here=here)


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
