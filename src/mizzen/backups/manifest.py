"""What belongs to a backup: a few files by name, blobs by their digest, and the manifest that vouches for all of it.

Left out is what a start makes anew (Table, work folders, ports, sockets), what only this machine's past is (logs,
records of what answered which request; event files of training), and uploads that are not complete.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from mizzen.blobs.fs.content import digest_name, hex_of
from mizzen.errors import BadRequest
from mizzen.selection import state_db

FORMAT: Final = 2
"""1 had no documents."""
DATABASE: Final = "mizzen.db"
LEARNT: Final = state_db.FILE
"""What bandits know. A plane that was never given feedback has none."""
DOCUMENTS: Final = "documents.jsonl"
"""Which blobs checkpoints and logs are made of. A plane that trained nothing has none."""
MANIFEST: Final = "manifest.json"
SEAL: Final = "manifest.sha256"
"""The digest of the manifest: the last file, so that one that was cut off has none."""

KEYS: Final = ("secret-key", "page-key", "admin-token")
"""Who reads them may do everything, and open every secret."""
TLS: Final = "tls"
"""The CA, and what it signed: clients that trust the plane go on trusting it where it is restored."""
WHOSE: Final = "backup-id"
"""Tells a plane's own backups among others. A plane that was restored goes on with it."""
OTHERS: Final = ("settings.toml", WHOSE)
MOST_MANIFEST: Final = 256 << 20

_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIXED = frozenset({DATABASE, LEARNT, DOCUMENTS, *KEYS, *OTHERS})
_FOLDERS = frozenset(
    {
        "blobs", "demo", "envs", "events", "incoming", "logs", "records", "refusals", "run", "runtime", TLS, "training",
        "uploads", "usage", "work",
    }
)  # fmt: skip
"""Of a data dir."""
_MADE_ANEW = frozenset({"ports.json", "table.json", "access.json", MANIFEST})
_NAMED = (".json", ".jwks", ".pem", ".key", ".crt", ".cer")
_MOST_PATH = 99
"""Characters: what a plain tar header holds."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a backup: where it stands in the data dir, and what it holds."""

    path: str
    size: int
    sha256: str

    @property
    def blob(self) -> bool:
        return self.path.startswith("blobs/")


@dataclass(frozen=True, slots=True)
class Manifest:
    mizzen: str
    """The version that made it."""
    schema: int
    """Of the database."""
    taken: str
    resource_version: int
    keys: bool
    """With what opens secrets and lets the admin in?"""
    beside: bool
    """The blobs stand in a folder beside the file, for other backups to share."""
    items: tuple[Item, ...]
    absent: tuple[str, ...] = ()
    """Blobs that an object names and the data dir does not have: not fetched yet, or lost."""
    format: int = field(default=FORMAT)

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """BadRequest when it is none of ours, or says something that no backup of ours says."""
        try:
            form = data["format"]
            if form > FORMAT:
                raise BadRequest(
                    f"this backup was made by Mizzen {data.get('mizzen')}, in a form that this version does not know",
                    hint="restore it with that version, or a newer one",
                )
            items = tuple(Item(str(each["path"]), int(each["size"]), str(each["sha256"])) for each in data["items"])
            made = cls(**{**data, "items": items, "absent": tuple(data["absent"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(f"its manifest makes no sense: {error!r}", hint="take another backup") from error
        check_paths([item.path for item in items])
        for item in items:
            if item.blob and digest_of_path(item.path) != digest_name(item.sha256):
                raise BadRequest(f"{item.path} is to hold something else than its name", hint="take another backup")
        return made


def blob_path(digest: str) -> str:
    hex_ = hex_of(digest)
    return f"blobs/sha256/{hex_[:2]}/{hex_}"


def digest_of_path(path: str) -> str | None:
    """Of a blob; None for other files."""
    found = _BLOB.fullmatch(path)
    return digest_name(found[2]) if found else None


def check_paths(paths: list[str]) -> None:
    """BadRequest unless each stands once, where a file of ours may stand: nothing leads out, nothing is unknown."""
    for path in paths:
        if not is_known(path):
            raise BadRequest(f"it holds {path[:200]!r}, which no backup of ours does", hint="take another backup")
    if len(set(paths)) != len(paths):
        raise BadRequest("it holds a file twice, which no backup of ours does", hint="take another backup")


def is_known(path: str) -> bool:
    if path.startswith("blobs/"):
        return _BLOB.fullmatch(path) is not None
    if path.startswith(f"{TLS}/"):
        return _NAME.fullmatch(path.removeprefix(f"{TLS}/")) is not None
    return path in _FIXED or may_be_named_in_settings(path)


def may_be_named_in_settings(path: str) -> bool:
    """May it be a file that a setting names, such as an issuer's keys? Also in a folder that is none of the plane's."""
    first, *_ = parts = path.split("/")
    own = path.endswith(_NAMED) and path not in _MADE_ANEW and (len(parts) == 1 or first not in _FOLDERS)
    return own and len(path) <= _MOST_PATH and all(_NAME.fullmatch(part) for part in parts)
