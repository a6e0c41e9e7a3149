"""Pagination of list responses.

A store's token names the last object read, which the caller may not be allowed to see. So tokens are encrypted: they
reveal nothing, and only this plane can read them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import Resource
from mizzen.stores.pages import ListCursor
from mizzen.stores.records import private_files
from mizzen.stores.store import Listing, Store, Where

KEY_BYTES = 32
NONCE_BYTES = 12
BLOCK = 128
"""Tokens are padded to multiples of this, to hide the length of the name."""
WALK = 1000
"""Objects to read at once after a page came out too short: then most objects are hidden from the caller."""
PIECE = 100
"""Objects to check before other requests are served."""
MOST_READ = 20
"""The most pages of the store to read for one response."""


class Paginator:
    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, only the tokens of this process are valid."""
        self._cipher = AESGCM(key or os.urandom(KEY_BYTES))

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Uses the key in this file, so that tokens survive a restart. Replaces an invalid key: that invalidates only
        the tokens of lists that callers are reading right now."""
        with suppress(FileExistsError):
            private_files.create(path, base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode())
        try:
            key = base64.urlsafe_b64decode(private_files.read(path, "key of the page tokens").encode())
        except (binascii.Error, UnicodeEncodeError):
            key = b""
        if len(key) != KEY_BYTES:
            key = os.urandom(KEY_BYTES)
            private_files.replace(path, base64.urlsafe_b64encode(key))
        return cls(key)

    def seal(self, place: str | None) -> str:
        """Encrypts a position; an empty token means the end of the list."""
        if not place:
            return ""
        text = place.encode()
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, text + b" " * (-len(text) % BLOCK), None)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def unseal(self, token: str) -> str | None:
        """Returns the position in a token; None for an empty one. Raises BadRequest."""
        if not token:
            return None
        try:
            sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            text = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
        except (ValueError, InvalidTag) as error:
            raise BadRequest("this is not a valid continue token", hint="start again without it") from error
        return text.decode().rstrip(" ")

    async def list_page(
        self, store: Store, kind: str, where: Where, visible: Callable[[Resource], bool], *, limit: int, token: str
    ) -> Listing:
        """Returns one page of visible objects, with a sealed token if more may follow.

        Hidden objects must not affect the response, or callers could use selectors to find out their names and labels.
        So this fills the page, and reads the store until it finds one more visible object, or the end. To bound that
        work, after `MOST_READ` pages it returns a token without knowing whether more follows.
        """
        after, size, full = self.unseal(token), limit + 1, False
        found: list[Resource] = []
        version = ""
        for _ in range(MOST_READ):
            page = await store.list(kind, where, limit=size, after=after)
            seen, version = await _filter(visible, page.items), page.resource_version
            room = 0 if full else limit - len(found)
            found += seen[:room]
            if len(seen) > room:
                return Listing(
                    tuple(found), version, self.seal(ListCursor.behind(found[-1], int(version), where).token())
                )
            if page.next is None:
                return Listing(tuple(found), version)
            # The store ended this page because of its size in bytes: the response must not grow further.
            full = full or (bool(found) and len(page.items) < size)
            after, size = page.next, max(limit + 1, WALK)
        return Listing(tuple(found), version, self.seal(after))


async def _filter(visible: Callable[[Resource], bool], items: Sequence[Resource]) -> list[Resource]:
    seen: list[Resource] = []
    for start in range(0, len(items), PIECE):
        if start:
            await asyncio.sleep(0)
        seen += filter(visible, items[start : start + PIECE])
    return seen
