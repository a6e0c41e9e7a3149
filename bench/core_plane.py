"""The control API alone, over a store that is there already: no controllers, no gateways. For bench/core.py.

python -m bench.core_plane FOLDER prints its port and serves until SIGTERM.
"""

from __future__ import annotations

import socket
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
import uvloop

from mizzen.blobs.file_store import FileBlobs
from mizzen.kinds.schema.resource import Resource
from mizzen.runs.checkpoints import CheckpointStore
from mizzen.server.admission.namespaced_store import NamespacedStore
from mizzen.server.app import create_app
from mizzen.server.auth.role_bindings import RoleBindingCache
from mizzen.server.flow_control import interpreter
from mizzen.server.http.context import ServerContext
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore

TOKEN = "the-token-of-the-benchmark"


async def open_store(folder: Path) -> SqliteStore:
    return await SqliteStore.open(
        folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex
    )


async def serve(folder: Path) -> None:
    interpreter.shorten_turns()
    store = await open_store(folder)
    blobs = FileBlobs(folder / "blobs")
    context = ServerContext(
        store=NamespacedStore(store),
        blobs=blobs,
        identities=store.identities,
        secrets=store.secrets,
        vault=Vault(store.secrets, folder / "secret-key"),
        audit=store.audit,
        bindings=RoleBindingCache(store),
        inference_url="http://127.0.0.1:1",
        checkpoints=CheckpointStore(blobs.documents),
        data_dir=folder,
        logs=_no_logs,
        ready=lambda: True,
        now=lambda: datetime.now(UTC),
    )
    app = create_app(context, admin_token=TOKEN)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, lifespan="off", access_log=False, log_config=None, ws="none")
    try:
        await uvicorn.Server(config).serve([listener])
    finally:
        await store.close()


async def _no_logs(
    workload: Resource, *, tail: int | None, follow: bool, places: dict[int, str] | None, build: bool = False
) -> AsyncIterator[bytes]:
    if workload.meta.name and tail is None and follow and places:
        yield b""


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
