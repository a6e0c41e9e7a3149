"""The members of a zip file that is held in memory, read without surprises: no duplicates, paths, or bombs."""

from __future__ import annotations

import io
import zipfile
import zlib

from mizzen.runtime.content.findings import DamagedFile, Unproven, quote

MAGIC = b"PK\x03\x04"
_MOST_MEMBERS = 200_000
_MOST_EXPANSION = 100
"""A member may expand to this many times its size, as arrays of equal numbers do."""
_SMALL = 1 << 20
"""A member up to this size may expand further."""
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ZipMembers:
    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise DamagedFile("it is not a zip file")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            listed = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError) as error:
            raise DamagedFile(f"it is not a readable zip file: {error}") from error
        if len(listed) > _MOST_MEMBERS:
            raise Unproven(f"it has {len(listed)} members; at most {_MOST_MEMBERS} are inspected")
        for member in listed:
            _check(member)
        self.names = frozenset(member.filename for member in listed)
        if len(self.names) < len(listed):
            raise Unproven("two members have the same name")

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise DamagedFile(f"its member {quote(name)} is missing")
        try:
            return self._zip.read(name)
        except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, RuntimeError) as error:
            raise DamagedFile(f"its member {quote(name)} cannot be read: {error}") from error


def _check(member: zipfile.ZipInfo) -> None:
    name = quote(member.filename)
    if "/" in member.filename or "\\" in member.filename or member.filename.startswith("."):
        raise Unproven(f"the name of its member {name} is a path")
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
        raise Unproven(f"its member {name} is encrypted or compressed in an unusual way")
    if member.file_size > max(member.compress_size * _MOST_EXPANSION, _SMALL):
        raise Unproven(f"its member {name} expands to {member.file_size} bytes from {member.compress_size}")
