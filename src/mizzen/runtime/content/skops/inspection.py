"""The inspection of a skops file."""

from __future__ import annotations

from mizzen.runtime.content.skops import rules
from mizzen.runtime.content.skops.values import Reader
from mizzen.runtime.content.skops.zip_members import ZipMembers


def inspect(data: bytes) -> frozenset[str]:
    """Return the classes in the file, which are harmless as they are used there. Raises Unproven or DamagedFile."""
    reader = Reader(ZipMembers(data))
    rules.check(reader.read())
    return frozenset(reader.found)
