"""The public keys of an issuer: from a file, from a URL, or from the URL in its discovery document.

They are fetched when first needed, again when a token names an unknown key (at most once a minute), and again after an
hour: the issuer may have withdrawn an older key.
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
MAX_AGE = 3600.0
TIMEOUT = 5.0
LARGEST = 1 << 20
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
MOST_KEYS = 256


class IssuerKeys:
    """An `oidc.KeyLookup`. `source` is a file or an http(s) URL; if empty, the issuer's discovery document names it."""

    def __init__(self, issuer: str, source: str, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._source = source
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._fetched = self._tried = -inf
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None) -> Key | None:
        if self._clock() - self._fetched >= MAX_AGE:
            await self._fetch(RETRY)
        key = jwt.pick_key(self._keys, kid)
        if key is None and self._clock() - self._fetched >= REFETCH:
            await self._fetch(REFETCH)
            key = jwt.pick_key(self._keys, kid)
        return key

    async def all(self) -> tuple[Key, ...]:
        """Returns all keys: at most a minute old, or an hour while the issuer is unreachable. Raises Unavailable."""
        if self._clock() - self._fetched >= REFETCH:
            try:
                await self._fetch(RETRY)
            except Unavailable:
                if self._clock() - self._fetched >= MAX_AGE:
                    raise
        return self._keys

    async def _fetch(self, patience: float) -> None:
        """One task fetches, the others wait for it. After a failure, no task retries for `patience` seconds.

        Raises Unavailable.
        """
        called = self._clock()
        async with self._lock:
            if self._fetched >= called:
                return
            if self._clock() - self._tried < patience:
                raise self._unavailable()
            self._tried = self._clock()
            try:
                self._keys = _signing_keys(await self._fetch_document())
            except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
                logger.warning("cannot get the keys of %s: %s", self._issuer, str(error) or type(error).__name__)
                raise self._unavailable() from error
            self._fetched = self._clock()

    async def _fetch_document(self) -> Any:
        if self._source and "://" not in self._source:
            return _parse_json(await asyncio.to_thread(_read, Path(self._source)))
        async with httpx2.AsyncClient(timeout=TIMEOUT) as client:
            if self._source:
                return await _get(client, self._source)
            found = await _get(client, f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if not isinstance(found, Mapping) or found.get("issuer") != self._issuer:
                raise ValueError("its discovery document names another issuer")
            place = found.get("jwks_uri")
            if not isinstance(place, str) or not is_trustworthy(place):
                raise ValueError("its discovery document has no https jwks_uri")
            return await _get(client, place)

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            f"the keys of {self._issuer} cannot be fetched now, so its tokens cannot be verified",
            hint="try again; the plane's log says why",
        )


def is_trustworthy(url: str) -> bool:
    """Whether keys from this URL cannot be changed in transit: https, or this machine."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.host in ("127.0.0.1", "localhost", "::1"))


async def _get(client: httpx2.AsyncClient, url: str) -> Any:
    chunks, size = [], 0
    async with asyncio.timeout(TIMEOUT), client.stream("GET", url) as answer:
        if answer.status_code != 200:
            raise ValueError(f"{url} returned {answer.status_code}")
        async for chunk in answer.aiter_bytes():
            size += len(chunk)
            if size > LARGEST:
                raise ValueError(f"{url} returned more than {LARGEST} bytes")
            chunks.append(chunk)
    return _parse_json(b"".join(chunks))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _signing_keys(document: Any) -> tuple[Key, ...]:
    """Returns the public signing keys. Raises ValueError if there are none."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    keys = tuple(
        key
        for key in (listed if isinstance(listed, list) else [])[:MOST_KEYS]
        if isinstance(key, Mapping) and _is_public_signing_key(key)
    )
    if not keys:
        raise ValueError("the fetched key set has no signing key")
    return keys


def _is_public_signing_key(key: Key) -> bool:
    # A key with its private part ("d") is compromised.
    return key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig" and "d" not in key
