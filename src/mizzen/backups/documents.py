"""The documents of the blobs as one file of a backup: a line of JSON each, ordered by name.

Document names are too long for a plain tar header.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from mizzen.blobs import digest_references
from mizzen.blobs.documents import FileDocuments
from mizzen.errors import BadRequest, Invalid, NotFound


def write_documents(documents: FileDocuments, file: BinaryIO) -> frozenset[str]:
    """Writes all documents. Returns the digests that they reference."""
    found: set[str] = set()
    for name in documents.names():
        try:
            data = documents.get(name)
        except NotFound:  # deleted meanwhile
            continue
        found.update(digest_references.digests_in(data))
        file.write(json.dumps({"name": name, "data": data.decode(errors="replace")}).encode() + b"\n")
    return frozenset(found)


def spread(lines: Iterable[bytes], blobs: Path) -> None:
    """Restores each document below this folder. Raises BadRequest."""
    documents = FileDocuments(blobs)
    for line in lines:
        try:
            found = json.loads(line)
            documents.put(found["name"], found["data"].encode())
        except (ValueError, TypeError, KeyError, AttributeError, Invalid) as error:
            raise BadRequest(f"a document in the backup makes no sense: {error}", hint="take another backup") from error
