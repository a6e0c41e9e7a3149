"""Files by digest: each that an object or document references exists, and has the content that its name says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from mizzen.blobs import digest_references
from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs import content
from mizzen.diagnosis.defects import Defect, Patient
from mizzen.diagnosis.store_checks import DATABASE
from mizzen.errors import NotFound
from mizzen.stores.sqlite import codec, schema

QUARANTINE: Final = "damaged"
"""Below `blobs/`: files with other content than their name says. Nothing reads or removes them."""


def check_blobs(patient: Patient, *, remote: bool) -> Iterator[Defect]:
    """`remote`: a blob store is configured, which has every file as well."""
    blobs = FileBlobs(patient.root / "blobs")
    named = _list_referenced(patient.root) | _list_documented(blobs.documents)
    stored = sorted(blobs.root.glob("sha256/??/*"))
    patient.progress.step("checking files", sum(path.stat().st_size for path in stored))
    good = set()
    for path in stored:
        digest = content.digest_name(path.name)
        size = path.stat().st_size
        if content.digest_of(path) == digest:
            good.add(digest)
        else:
            yield _describe(patient, blobs, digest, path, named=digest in named, remote=remote)
        patient.progress.more(size)
    for digest in sorted(named - good):
        if not (blobs.root / content.blob_key(digest)).exists() and not remote:
            lost = Defect("blobs", f"a referenced file is missing: {digest}", blobs.uri(digest), _replace(remote))
            copy = _find_copy(patient.root, digest)
            yield lost if copy is None else patient.mend(lost, lambda copy=copy: _put_back(blobs, copy))  # type: ignore[misc]


def check_documents(patient: Patient) -> Iterator[Defect]:
    documents = FileDocuments(patient.root / "blobs")
    for name, why in documents.list_damaged().items():
        what = f"the document {name} of a checkpoint or log is damaged: {why}; files without a reference are kept"
        action = "put a copy back; or remove it, and 'mizzen doctor --collect' on the stopped plane gives up its files"
        yield Defect("blobs", what, documents.uri(name), action)


def _describe(patient: Patient, blobs: FileBlobs, digest: str, path: Path, *, named: bool, remote: bool) -> Defect:
    what = f"a {'referenced' if named else 'stored'} file is damaged: {digest}"
    defect = Defect("blobs", what, str(path), _replace(remote) if named else "run 'mizzen doctor --repair'")

    def repair() -> str:
        aside = blobs.root / QUARANTINE / path.name
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        path.rename(aside)
        copy = _find_copy(patient.root, digest)
        if copy is not None:
            return f"{_put_back(blobs, copy)}; the damaged one is {aside}"
        return f"moved to {aside}"

    mended = patient.mend(defect, repair)
    if mended.repaired.startswith("moved") and named and not remote:
        # Out of the way, but not back.
        return Defect(mended.check, f"{mended.what}; it was {mended.repaired}", mended.where, mended.next)
    return mended


def _replace(remote: bool) -> str:
    if remote:
        return "'mizzen doctor --repair' moves it away; the plane then fetches it from the blob store"
    return "'mizzen doctor --repair' looks for a copy; without one, register a version with this file again"


def _find_copy(root: Path, digest: str) -> Path | None:
    """A copy that was laid out for serving, if it is whole."""
    for marker in root.glob("work/*/.*.laid"):
        try:
            laid = json.loads(marker.read_bytes())
            files = marker.with_name(marker.name.removeprefix(".").removesuffix(".laid"))
            copies = [files / str(path) for path, (known, *_) in laid.items() if known == digest]
            whole = next((copy for copy in copies if content.digest_of(copy) == digest), None)
        except (OSError, ValueError, AttributeError, TypeError):
            continue
        if whole is not None:
            return whole
    return None


def _put_back(blobs: FileBlobs, copy: Path) -> str:
    blobs.put_file(copy)
    return f"restored from {copy}"


def _list_referenced(root: Path) -> set[str]:
    path = root / DATABASE
    if not path.exists():
        return set()
    with closing(schema.open_untouched(path)) as connection:
        marks = ", ".join("?" for _ in digest_references.NAMING)
        query = f"SELECT body FROM objects WHERE kind IN ({marks})"  # noqa: S608 - constants only
        found = connection.execute(query, digest_references.NAMING)
        return {one for (body,) in found for one in digest_references.digests(codec.decode(body).spec)}


def _list_documented(documents: FileDocuments) -> set[str]:
    found: set[str] = set()
    for name in documents.names():
        try:
            found.update(digest_references.digests_in(documents.get(name)))
        except NotFound:
            continue
    return found
