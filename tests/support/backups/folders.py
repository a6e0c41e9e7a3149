"""Data dirs without a plane, and those who take and restore backups of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from mizzen.backups import create
from mizzen.backups import restore as backups_restore
from mizzen.backups.create import BackupRequest, BackupResult
from mizzen.backups.manifest import Manifest
from mizzen.blobs.file_store import FileBlobs
from mizzen.kinds.schema.resource import Meta, Resource
from tests.contract.stores import open_sqlite

TAKEN = datetime(2026, 11, 16, 12, tzinfo=UTC)
KEYS = {"secret-key": "seal", "page-key": "page", "admin-token": "token"}


class Quiet:
    def step(self, what: str, total: int) -> None: ...

    def more(self, done: int) -> None: ...


def version(name: str, digests: Iterable[str]) -> Resource:
    artifacts = [{"path": f"file-{number}", "digest": digest} for number, digest in enumerate(digests)]
    return Resource("ModelVersion", Meta(name), {"model": "m", "artifacts": artifacts})


def data_dir(folder: Path, *files: bytes) -> Path:
    """One version for each of these files, settings, keys, and much that belongs to no backup."""
    folder.mkdir(mode=0o700, parents=True)
    blobs = FileBlobs(folder / "blobs")

    async def fill() -> None:
        store = await open_sqlite(folder)
        digests = [blobs.put_bytes(data).digest for data in files]
        blobs.put_bytes(b"that nobody names")
        for number, digest in enumerate(digests):
            await store.create(version(f"v{number}", [digest]), "ann")
        await store.close()

    asyncio.run(fill())
    for name, text in KEYS.items():
        (folder / name).write_text(text)
    (folder / "settings.toml").write_text("gateways = 2\n")
    (folder / "tls").mkdir()
    (folder / "tls" / "ca.pem").write_text("certificate")
    (folder / "ports.json").write_text("{}")
    (folder / "table.json").write_text("{}")
    (folder / "logs").mkdir()
    (folder / "logs" / "plane.log").write_text("line")
    return folder


def backup(folder: Path, target: Path, *, keys: bool = True) -> BackupResult:
    return create.to_file(BackupRequest(folder, TAKEN, keys=keys), target, Quiet())


def restore(file: Path, folder: Path) -> Manifest:
    return backups_restore.restore(file, folder, Quiet())


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def objects(folder: Path) -> list[Resource]:
    async def read() -> list[Resource]:
        store = await open_sqlite(folder)
        try:
            return list((await store.list("ModelVersion")).items)
        finally:
            await store.close()

    return asyncio.run(read())
