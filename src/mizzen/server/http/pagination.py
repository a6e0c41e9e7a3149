"""Pages of lists, as they leave the server.

A store's token names the last object that was read, which its reader may not be allowed to see. So tokens are sealed:
they tell nothing, and only this plane can read them.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import Resource
from mizzen.stores.pages import Place
from mizzen.stores.records import private_files
from mizzen.stores.store import Listing, Store, Where

KEY_BYTES = 32
NONCE_BYTES = 12
BLOCK = 128
"""Tokens are filled up to multiples of this, so that not even the length of a name is told."""
WALK = 1000
"""Objects that are read at once, when those before were too few for a page: most are somebody else's then."""
MOST_READ = 20
"""Pages of the store that one answer may take."""


class Pages:
    def __init__(self, key: bytes | None = None) -> None:
        """Without a key of its own, nobody else's tokens are good here."""
        self._cipher = AESGCM(key or os.urandom(KEY_BYTES))

    @classmethod
    def kept(cls, path: Path) -> Self:
        """With the key in this file, so that tokens outlive a restart. One that makes no sense is replaced: with it go
        only the tokens of lists that are being read right now."""
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
        """Empty when there is nothing to go on with."""
        if not place:
            return ""
        text = place.encode()
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, text + b" " * (-len(text) % BLOCK), None)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def opened(self, token: str) -> str | None:
        """What was sealed; None for an empty token. BadRequest."""
        if not token:
            return None
        try:
            sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            text = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
        except (ValueError, InvalidTag) as error:
            raise BadRequest("this is no token to continue with", hint="start again, without it") from error
        return text.decode().rstrip(" ")

    async def listing(
        self, store: Store, kind: str, where: Where, visible: Callable[[Resource], bool], *, limit: int, token: str
    ) -> Listing:
        """One page of what is visible, with a sealed token when more of that follows; only without one was that all.

        What is hidden must show in nothing, or selectors would find out its names and labels. So a page is filled up,
        and the store is read on until one more visible object is found, or the end. That cannot go on for ever: only
        after `MOST_READ` pages of hidden objects, however few were asked for, there is a token without knowing better.
        """
        after, size, full = self.opened(token), limit + 1, False
        found: list[Resource] = []
        version = ""
        for _ in range(MOST_READ):
            page = await store.list(kind, where, limit=size, after=after)
            seen, version = [*filter(visible, page.items)], page.resource_version
            room = 0 if full else limit - len(found)
            found += seen[:room]
            if len(seen) > room:
                return Listing(tuple(found), version, self.seal(Place.behind(found[-1], int(version), where).token()))
            if page.next is None:
                return Listing(tuple(found), version)
            # The store ended this page because of its bytes: with what is on it, the answer is as large as it may be.
            full = full or (bool(found) and len(page.items) < size)
            after, size = page.next, max(limit + 1, WALK)
        return Listing(tuple(found), version, self.seal(after))
