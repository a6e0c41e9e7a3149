"""Retention of the leftovers of training: documents, event files and folders that outlive their jobs.

Checkpoints and event files are removed with their version or model, logs with their model. The folder of a job is
removed once the job is gone and its logs are in Blobs. All only after the grace time without changes. Blocking code.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mizzen.blobs import digest_references
from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.resource import Resource
from mizzen.runs.paths import UNVERSIONED

CHECKPOINTS = "checkpoints/"
LOGS = "logs/"

log = logging.getLogger(__name__)


KINDS = ("Model", "ModelVersion", "TrainingJob")


@dataclass(slots=True)
class StoredObjects:
    """The models, versions and jobs in the store."""

    models: set[tuple[str, str]] = field(default_factory=set)
    """By namespace and name."""
    versions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Uids, by namespace, model and version."""
    jobs: set[str] = field(default_factory=set)
    """By uid."""

    def add(self, item: Resource) -> None:
        """Adds an object of one of `KINDS`."""
        meta, spec = item.meta, item.spec
        match item.kind:
            case "Model":
                self.models.add((meta.namespace, meta.name))
            case "ModelVersion":
                self.versions[meta.namespace, str(spec.get("modelName")), str(spec.get("version"))] = meta.uid
            case "TrainingJob":
                self.jobs.add(meta.uid)

    def lacks_owner(self, of: Mapping[str, Any]) -> bool:
        """Whether its model or version is gone, or is another one of the same name."""
        namespace, model, version = (str(of.get(key, "")) for key in ("namespace", "model", "version"))
        if (namespace, model) not in self.models:
            return True
        if version in ("", UNVERSIONED):
            return False
        uid = self.versions.get((namespace, model, version))
        return uid is None or of.get("version_uid", "") not in ("", uid)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files without changes for the grace time. Listed before the store is read, so that nothing new counts as old."""

    documents: tuple[str, ...]
    events: tuple[tuple[Path, Mapping[str, str]], ...]
    """Folders of models and versions, and which ones these are."""
    jobs: tuple[Path, ...]

    @classmethod
    def find(cls, documents: FileDocuments, data_dir: Path | None, before: datetime) -> Leftovers:
        named = (name for prefix in (CHECKPOINTS, LOGS) for name in documents.names(prefix))
        old = tuple(name for name in named if _is_old(documents, name, before))
        if data_dir is None:
            return cls(old, (), ())
        events = data_dir / "events"
        folders = [one for level in ("*/*", "*/*/*") for one in events.glob(level) if one.is_dir()]
        return cls(
            old,
            tuple(
                (one, dict(zip(("namespace", "model", "version"), one.relative_to(events).parts, strict=False)))
                for one in folders
                if _newest_change(one) < before.timestamp()
            ),
            tuple(
                one
                for one in data_dir.glob("training/*")
                if one.is_dir() and _newest_change(one, 3) < before.timestamp()
            ),
        )


def list_referenced_digests(documents: FileDocuments) -> frozenset[str]:
    """Returns the digests of all files that documents reference."""
    found: set[str] = set()
    for name in documents.names():
        with suppress(NotFound):  # deleted meanwhile
            found.update(digest_references.digests_in(documents.get(name)))
    return frozenset(found)


def remove(old: Leftovers, documents: FileDocuments, present: StoredObjects) -> int:
    """Returns how many documents and folders were removed."""
    gone = 0
    for name, content in _read_contents(documents, old.documents):
        if present.lacks_owner(content):
            try:
                gone += documents.delete(name)
            except MizzenError as error:
                log.warning("cannot remove %s of a deleted model or version: %s; trying again", name, error)
    for folder, of in old.events:
        if present.lacks_owner(of):
            gone += _remove_folder(folder)
    for folder in old.jobs:
        if folder.name not in present.jobs and _logs_are_kept(documents, folder.name):
            gone += _remove_folder(folder)
    return gone


def _is_old(documents: FileDocuments, name: str, before: datetime) -> bool:
    try:
        return documents.last_modified(name) < before
    except NotFound:
        return False


def _read_contents(documents: FileDocuments, names: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the documents that still exist and name their model."""
    for name in names:
        try:
            content = json.loads(documents.get(name))
        except (NotFound, ValueError):
            continue
        if isinstance(content, dict) and "namespace" in content and "model" in content:
            yield name, content


def _logs_are_kept(documents: FileDocuments, uid: str) -> bool:
    """Whether all of its logs are stored; also if there are none any more, because they were removed."""
    return all(content.get("complete") for _, content in _read_contents(documents, documents.names(f"{LOGS}{uid}/")))


def _newest_change(folder: Path, depth: int | None = None) -> float:
    """Returns the last change of anything in the folder, up to this depth, in seconds since 1970."""
    newest = 0.0
    for here, folders, files in os.walk(folder):
        for name in (".", *files):
            try:
                newest = max(newest, os.lstat(os.path.join(here, name)).st_mtime)
            except OSError:
                continue
        if depth is not None and len(Path(here).relative_to(folder).parts) >= depth - 1:
            folders.clear()
    return newest


def _remove_folder(folder: Path) -> bool:
    if not folder.exists():
        return False
    try:
        remove_tree(folder)
    except OSError as error:
        log.warning("cannot remove %s, which is no longer needed: %s; trying again", folder, error)
        return False
    return True
