"""The public keys of an issuer: from a file, from an address, or from where its discovery document says.

They are fetched when first needed, again when a token names a key that is not known (at most once a minute), and again
after an hour: no longer is a key believed that the issuer may have withdrawn.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any

import httpx2

from mizzen.access import jwt
from mizzen.access.jwt import Key
from mizzen.errors import Unavailable

logger = logging.getLogger(__name__)

REFETCH = 60.0
RETRY = 5.0
"""Seconds between attempts while there are no keys."""
OLD = 3600.0
TIMEOUT = 5.0
LARGEST = 1 << 20
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
MOST_KEYS = 256


class IssuerKeys:
    """`oidc.Keys`. `source` is a file or an http(s) address; empty: ask the issuer where they are."""

    def __init__(self, issuer: str, source: str, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._source = source
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._fetched = self._tried = -inf
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None) -> Key | None:
        if self._clock() - self._fetched >= OLD:
            await self._fetch(RETRY)
        key = jwt.pick(self._keys, kid)
        if key is None and self._clock() - self._fetched >= REFETCH:
            await self._fetch(REFETCH)
            key = jwt.pick(self._keys, kid)
        return key

    async def all(self) -> tuple[Key, ...]:
        """For whoever cannot ask by name: not older than a minute, or an hour while the issuer is away. Unavailable."""
        if self._clock() - self._fetched >= REFETCH:
            try:
                await self._fetch(RETRY)
            except Unavailable:
                if self._clock() - self._fetched >= OLD:
                    raise
        return self._keys

    async def _fetch(self, patience: float) -> None:
        """Unavailable. One fetches, the others wait for it; after a failure nobody tries again for so many seconds."""
        asked = self._clock()
        async with self._lock:
            if self._fetched >= asked:
                return
            if self._clock() - self._tried < patience:
                raise self._unavailable()
            self._tried = self._clock()
            try:
                self._keys = _usable(await self._document())
            except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
                logger.warning("cannot get the keys of %s: %s", self._issuer, str(error) or type(error).__name__)
                raise self._unavailable() from error
            self._fetched = self._clock()

    async def _document(self) -> Any:
        if self._source and "://" not in self._source:
            return _parsed(await asyncio.to_thread(_read, Path(self._source)))
        async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
            if self._source:
                return await _get(client, self._source)
            found = await _get(client, f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if not isinstance(found, Mapping) or found.get("issuer") != self._issuer:
                raise ValueError("its discovery document is that of another issuer")
            place = found.get("jwks_uri")
            if not isinstance(place, str) or not trustworthy(place):
                raise ValueError("its discovery document names no https address of keys")
            return await _get(client, place)

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            f"the keys of {self._issuer} cannot be had now, so its tokens cannot be checked",
            hint="try again; the plane's log says why",
        )


def trustworthy(url: str) -> bool:
    """Keys that others could change on the way prove nothing: https, or this machine."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.host in ("127.0.0.1", "localhost", "::1"))


async def _get(client: httpx2.AsyncClient, url: str) -> Any:
    chunks, size = [], 0
    async with asyncio.timeout(TIMEOUT), client.stream("GET", url) as answer:
        if answer.status_code != 200:
            raise ValueError(f"{url} answers {answer.status_code}")
        async for chunk in answer.aiter_bytes():
            size += len(chunk)
            if size > LARGEST:
                raise ValueError(f"{url} answers with more than {LARGEST} bytes")
            chunks.append(chunk)
    return _parsed(b"".join(chunks))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _usable(document: Any) -> tuple[Key, ...]:
    """The public keys for signatures. A set without any is no answer."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    keys = tuple(
        key
        for key in (listed if isinstance(listed, list) else [])[:MOST_KEYS]
        if isinstance(key, Mapping) and _public(key)
    )
    if not keys:
        raise ValueError("there is no key for signatures in what was fetched")
    return keys


def _public(key: Key) -> bool:
    # One that holds its private part ("d") has been given away.
    return key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig" and "d" not in key
