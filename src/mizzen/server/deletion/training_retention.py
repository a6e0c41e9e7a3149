"""What training left for good: documents, event files and folders that outlive their jobs, and when they go.

Checkpoints and event files go with their version or model, logs with their model; the folder of a job goes once the
job is gone and its logs are in Blobs. Each only after it was left alone for the grace time. Blocking code.
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
from mizzen.blobs.documents import Documents
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.resource import Resource
from mizzen.runs.paths import UNVERSIONED

CHECKPOINTS = "checkpoints/"
LOGS = "logs/"

log = logging.getLogger(__name__)


KINDS = ("Model", "ModelVersion", "TrainingJob")


@dataclass(slots=True)
class Present:
    """What there is in the store."""

    models: set[tuple[str, str]] = field(default_factory=set)
    """By namespace and name."""
    versions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Their uids, by namespace, model and version."""
    jobs: set[str] = field(default_factory=set)
    """By uid."""

    def add(self, item: Resource) -> None:
        """One of `KINDS`."""
        meta, spec = item.meta, item.spec
        match item.kind:
            case "Model":
                self.models.add((meta.namespace, meta.name))
            case "ModelVersion":
                self.versions[meta.namespace, str(spec.get("modelName")), str(spec.get("version"))] = meta.uid
            case "TrainingJob":
                self.jobs.add(meta.uid)

    def lacks(self, of: Mapping[str, Any]) -> bool:
        """Is the model gone that this belongs to, or the version, or is that another one of the same name?"""
        namespace, model, version = (str(of.get(key, "")) for key in ("namespace", "model", "version"))
        if (namespace, model) not in self.models:
            return True
        if version in ("", UNVERSIONED):
            return False
        uid = self.versions.get((namespace, model, version))
        return uid is None or of.get("version_uid", "") not in ("", uid)


@dataclass(frozen=True, slots=True)
class Old:
    """What was left alone for long enough: looked at before the store is, so that nothing new is taken for it."""

    documents: tuple[str, ...]
    events: tuple[tuple[Path, Mapping[str, str]], ...]
    """Folders of models and of versions, and which that is."""
    jobs: tuple[Path, ...]

    @classmethod
    def found(cls, documents: Documents, data_dir: Path | None, before: datetime) -> Old:
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
                if _newest(one) < before.timestamp()
            ),
            tuple(one for one in data_dir.glob("training/*") if one.is_dir() and _newest(one, 3) < before.timestamp()),
        )


def named_digests(documents: Documents) -> frozenset[str]:
    """Of all files that documents name."""
    found: set[str] = set()
    for name in documents.names():
        with suppress(NotFound):  # deleted meanwhile
            found.update(digest_references.digests_in(documents.get(name)))
    return frozenset(found)


def remove(old: Old, documents: Documents, present: Present) -> int:
    """How many documents and folders went."""
    gone = 0
    for name, content in _contents(documents, old.documents):
        if present.lacks(content):
            try:
                gone += documents.delete(name)
            except MizzenError as error:
                log.warning("cannot remove %s, of a model or version that is gone: %s; trying again", name, error)
    for folder, of in old.events:
        if present.lacks(of):
            gone += _removed(folder)
    for folder in old.jobs:
        if folder.name not in present.jobs and _logs_are_kept(documents, folder.name):
            gone += _removed(folder)
    return gone


def _is_old(documents: Documents, name: str, before: datetime) -> bool:
    try:
        return documents.touched(name) < before
    except NotFound:
        return False


def _contents(documents: Documents, names: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of those that are still there and say whose they are."""
    for name in names:
        try:
            content = json.loads(documents.get(name))
        except (NotFound, ValueError):
            continue
        if isinstance(content, dict) and "namespace" in content and "model" in content:
            yield name, content


def _logs_are_kept(documents: Documents, uid: str) -> bool:
    """All of them, or none any more: then they were to go."""
    return all(content.get("complete") for _, content in _contents(documents, documents.names(f"{LOGS}{uid}/")))


def _newest(folder: Path, depth: int | None = None) -> float:
    """When anything in it changed last, as deep as that; seconds since 1970."""
    newest = 0.0
    for here, folders, files in os.walk(folder):
        for name in (".", *files):
            try:
                newest = max(newest, os.stat(os.path.join(here, name)).st_mtime)
            except FileNotFoundError:
                continue
        if depth is not None and len(Path(here).relative_to(folder).parts) >= depth - 1:
            folders.clear()
    return newest


def _removed(folder: Path) -> bool:
    if not folder.exists():
        return False
    try:
        remove_tree(folder)
    except OSError as error:
        log.warning("cannot remove %s, which nobody needs any more: %s; trying again", folder, error)
        return False
    return True
