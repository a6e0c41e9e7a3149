"""Checkpoints and their store.

The files of a checkpoint are blobs. It exists once its manifest does, a blob document that is written last of all.
Manifests belong to a version and outlive the job that wrote them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from mizzen.errors import Invalid, NotFound
from mizzen.runs.paths import UNVERSIONED
from mizzen.runs.records import File, JsonRecord

if TYPE_CHECKING:
    from mizzen.blobs.documents import FileDocuments

FOLDER = "checkpoints"
ID = re.compile(r"[a-z0-9][-a-z0-9]{0,99}")
"""The pattern of a valid id."""


@dataclass(frozen=True, slots=True)
class Checkpoint(JsonRecord):
    id: str
    """`<job>-<12 digits of a sha256>`, over its name, its content and its write time. Publishing it twice gives one
    checkpoint; the same content saved again is another one."""
    namespace: str
    model: str
    version: str
    version_uid: str
    job: str
    job_uid: str
    name: str
    """The name that the code gave it."""
    files: tuple[File, ...]
    sha256: str
    """The digest of its file, if it has only one; else over the paths and digests of its files. 64 hexadecimal
    digits."""
    created: float
    """When its save was complete; seconds since 1970."""
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    trusted: bool = False
    """Whether it may be unpickled: the user who started the job may trust code, or another user with that right trusted
    it."""
    framework: str = ""
    """The framework of its files, if they show it."""
    entrypoint: str = ""
    """Which of its files to load."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def order(self) -> tuple[float, int, str]:
        """Sort key: the newest is the largest."""
        return self.created, -1 if self.step is None else self.step, self.id

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "files": tuple(File(**file) for file in data["files"])})


def digest_of(files: Iterable[File]) -> str:
    """Return the digest; for one file its own, as `sha256sum` prints it."""
    ordered = sorted(files, key=lambda file: file.path)
    if len(ordered) == 1:
        return ordered[0].digest.removeprefix("sha256:")
    listing = "".join(f"{file.path}\0{file.digest}\0" for file in ordered)
    return hashlib.sha256(listing.encode()).hexdigest()


def checkpoint_id(job: str, name: str, sha256: str, written_ns: int) -> str:
    """`written_ns`: when the last of its files was written; the file system shows every runner the same."""
    return f"{job}-{hashlib.sha256(f'{name}:{sha256}:{written_ns}'.encode()).hexdigest()[:12]}"


class CheckpointStore:
    """Stored checkpoints by namespace, model and version. Blocking; Unavailable if the blob store does not respond."""

    def __init__(self, documents: FileDocuments) -> None:
        self._documents = documents

    def add(self, checkpoint: Checkpoint) -> bool:
        """Add a checkpoint whose files the caller has stored; False if it already exists."""
        return self._documents.put(_name(checkpoint), json.dumps(checkpoint.to_json()).encode(), new=True)

    def vouch(self, checkpoint: Checkpoint) -> Checkpoint:
        """Mark it as trusted, and return it."""
        trusted = checkpoint if checkpoint.trusted else replace(checkpoint, trusted=True)
        if trusted is not checkpoint:
            self._documents.put(_name(trusted), json.dumps(trusted.to_json()).encode())
        return trusted

    def find(self, namespace: str, model: str, version: str, id_: str) -> Checkpoint | None:
        """Find by id; any text is safe as an id."""
        if not ID.fullmatch(id_):
            return None
        found = self._read_one(f"{FOLDER}/{namespace}/{model}/{version or UNVERSIONED}/{id_}.json")
        return found if found is not None and found.id == id_ else None

    def newest(self, namespace: str, model: str, version: str, version_uid: str = "") -> Checkpoint | None:
        """Return the checkpoint saved last, over all jobs of the version, however they ended."""
        return next(iter(self.of_version(namespace, model, version, version_uid)), None)

    def of_version(self, namespace: str, model: str, version: str, version_uid: str = "") -> list[Checkpoint]:
        """List newest first. With `version_uid`, without those of an earlier version of the same name."""
        found = self._read(f"{FOLDER}/{namespace}/{model}/{version or UNVERSIONED}/")
        fitting = (each for each in found if not version_uid or each.version_uid in ("", version_uid))
        return sorted(fitting, key=lambda each: each.order, reverse=True)

    def of_job(self, namespace: str, model: str, version: str, job_uid: str) -> list[Checkpoint]:
        """List newest first."""
        return [each for each in self.of_version(namespace, model, version) if each.job_uid == job_uid]

    def all(self, prefix: str = "") -> list[Checkpoint]:
        """List all checkpoints. `prefix`: `<namespace>/`, `<namespace>/<model>/` or
        `<namespace>/<model>/<version>/`."""
        return self._read(f"{FOLDER}/{prefix}")

    def count(self, namespace: str, model: str, version: str = "") -> int:
        """Count those of a version, or of a whole model, without reading them."""
        within = f"{version}/" if version else ""
        return len(self._names(f"{FOLDER}/{namespace}/{model}/{within}"))

    def remove(self, checkpoint: Checkpoint) -> bool:
        """Remove it. Its files are removed once nothing refers to them."""
        return self._documents.delete(_name(checkpoint))

    def uri(self, checkpoint: Checkpoint) -> str:
        """Return the address of its manifest."""
        return self._documents.uri(_name(checkpoint))

    def _read(self, prefix: str) -> list[Checkpoint]:
        found = (self._read_one(name) for name in self._names(prefix))
        return [each for each in found if each is not None]

    def _names(self, prefix: str) -> list[str]:
        try:
            return self._documents.names(prefix)
        except Invalid:  # stored specs may have any origin: an invalid version has no checkpoints
            return []

    def _read_one(self, name: str) -> Checkpoint | None:
        try:
            return Checkpoint.from_json(json.loads(self._documents.get(name)))
        except (NotFound, Invalid, ValueError, TypeError, KeyError):  # absent, removed meanwhile, or not a manifest
            return None


def _name(checkpoint: Checkpoint) -> str:
    version = checkpoint.version or UNVERSIONED
    return f"{FOLDER}/{checkpoint.namespace}/{checkpoint.model}/{version}/{checkpoint.id}.json"
