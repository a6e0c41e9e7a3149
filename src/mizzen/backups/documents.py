"""The documents of the blobs as one file of a backup: a line of JSON each, ordered by name.

Document names are too long for a plain tar header.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from mizzen.backups.manifest import damage_error
from mizzen.blobs import digest_references
from mizzen.blobs.documents import FileDocuments
from mizzen.errors import Invalid, NotFound


def write_documents(documents: FileDocuments, file: BinaryIO) -> frozenset[str]:
    """Writes all documents. Returns the digests that they reference."""
    digests: set[str] = set()
    for name in documents.names():
        try:
            data = documents.get(name)
        except NotFound:  # deleted meanwhile
            continue
        digests.update(digest_references.digests_in(data))
        file.write(json.dumps({"name": name, "data": data.decode(errors="replace")}).encode() + b"\n")
    return frozenset(digests)


def restore_documents(lines: Iterable[bytes], blobs: Path) -> None:
    """Writes each document below this folder. Raises BadRequest."""
    documents = FileDocuments(blobs)
    for line in lines:
        try:
            document = json.loads(line)
            documents.put(document["name"], document["data"].encode())
        except (ValueError, TypeError, KeyError, AttributeError, Invalid) as error:
            raise damage_error(f"a document in the backup is not valid: {error}") from error
