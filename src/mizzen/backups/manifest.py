"""The contents of a backup: a few files by name, blobs by digest, and the manifest with the digests of all.

Backups leave out files that a start recreates (Table, work folders, ports, sockets), this machine's history (logs,
records of which replica answered a request, event files of training), and incomplete uploads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Self

from mizzen.blobs.fs.content import blob_key, digest_name
from mizzen.errors import BadRequest
from mizzen.selection import state_db

FORMAT: Final = 2
"""Version 1 had no documents."""
DATABASE: Final = "mizzen.db"
LEARNT: Final = state_db.FILE
"""State of the bandits. A plane that never received feedback has none."""
DOCUMENTS: Final = "documents.jsonl"
"""The blobs of checkpoints and logs. A plane without training jobs has none."""
MANIFEST: Final = "manifest.json"
SEAL: Final = "manifest.sha256"
"""The digest of the manifest. It is the last file, so a truncated backup has none."""

KEYS: Final = ("secret-key", "page-key", "admin-token")
"""A reader of these files has full access and can open every secret."""
TLS: Final = "tls"
"""The CA and its certificates: clients that trust the plane also trust the restored one."""
WHOSE: Final = "backup-id"
"""Identifies a plane's own backups. A restored plane keeps it."""
OTHERS: Final = ("settings.toml", WHOSE)
MOST_MANIFEST: Final = 256 << 20

_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIXED = frozenset({DATABASE, LEARNT, DOCUMENTS, *KEYS, *OTHERS})
_FOLDERS = frozenset({
    "blobs", "demo", "envs", "events", "incoming", "logs", "records", "refusals", "run", "runtime", TLS, "training",
    "uploads", "usage", "work",
})  # fmt: skip
"""Of a data dir."""
_RECREATED = frozenset({"ports.json", "table.json", "access.json", MANIFEST})
_NAMED = (".json", ".jwks", ".pem", ".key", ".crt", ".cer")
_MOST_PATH = 99
"""Maximum characters of a path in a plain tar header."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a backup: its path in the data dir, and its content."""

    path: str
    size: int
    sha256: str

    @property
    def blob(self) -> bool:
        return self.path.startswith("blobs/")


@dataclass(frozen=True, slots=True)
class Manifest:
    mizzen: str
    """The Mizzen version that created it."""
    schema: int
    """Of the database."""
    taken: str
    resource_version: int
    keys: bool
    """Whether it includes the key of the secrets and the admin's token."""
    beside: bool
    """The blobs are in a folder next to the file, shared with other backups."""
    items: tuple[Item, ...]
    absent: tuple[str, ...] = ()
    """Blobs that an object references but the data dir lacks: not fetched yet, or lost."""
    format: int = field(default=FORMAT)

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Parses a manifest. Raises BadRequest if it is not a valid one."""
        try:
            form = data["format"]
            if form > FORMAT:
                raise BadRequest(
                    f"this backup has a newer format, of Mizzen {data.get('mizzen')}",
                    hint="restore it with that version, or a newer one",
                )
            items = tuple(Item(str(each["path"]), int(each["size"]), str(each["sha256"])) for each in data["items"])
            manifest = cls(**{**data, "items": items, "absent": tuple(data["absent"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damage_error(f"the manifest is not valid: {error!r}") from error
        check_paths([item.path for item in items])
        for item in items:
            if item.blob and digest_of_path(item.path) != digest_name(item.sha256):
                raise damage_error(f"the manifest has a digest for {item.path} that differs from its name")
        return manifest


def damage_error(message: str) -> BadRequest:
    """Returns the error for a backup that cannot be used."""
    return BadRequest(message, hint="take another backup: this one is not reliable")


def blob_path(digest: str) -> str:
    return f"blobs/{blob_key(digest)}"


def digest_of_path(path: str) -> str | None:
    """Returns the digest of a blob's path; None for other files."""
    found = _BLOB.fullmatch(path)
    return digest_name(found[2]) if found else None


def check_paths(paths: list[str]) -> None:
    """Raises BadRequest unless each path is unique, known, and inside the data dir."""
    for path in paths:
        if not is_known(path):
            raise damage_error(f"the backup holds {path[:200]!r}, which Mizzen does not back up")
    if len(set(paths)) != len(paths):
        raise damage_error("the backup holds a file twice")


def is_known(path: str) -> bool:
    if path.startswith("blobs/"):
        return _BLOB.fullmatch(path) is not None
    if path.startswith(f"{TLS}/"):
        return _NAME.fullmatch(path.removeprefix(f"{TLS}/")) is not None
    return path in _FIXED or may_be_named_in_settings(path)


def may_be_named_in_settings(path: str) -> bool:
    """Whether a setting may name this file, such as an issuer's keys. It may be in a folder unknown to the plane."""
    first, *_ = parts = path.split("/")
    own = path.endswith(_NAMED) and path not in _RECREATED and (len(parts) == 1 or first not in _FOLDERS)
    return own and len(path) <= _MOST_PATH and all(_NAME.fullmatch(part) for part in parts)
