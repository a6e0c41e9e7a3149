"""Secrets at rest: sealed with AES-256-GCM under a key file in the data dir, opened only to start processes.

A sealed text is bound to its namespace and name, so rows cannot be swapped. The first use stores a witness seal. With
it, the vault detects a lost or changed key file, and then refuses to seal, open or create anything.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import secrets as randomness
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.findings import suggestion
from mizzen.stores.records import private_files
from mizzen.stores.records.protocol import SealedSecret, Secrets

KEY_BYTES = 32
NONCE_BYTES = 12
FORMAT = b"\x01"
"""First byte of a sealed text; identifies this format among later ones."""

WITNESS = ("", "secret-key")
"""(namespace, name) of the witness seal; no request can name it."""


class Vault:
    def __init__(self, secrets: Secrets, key_file: Path) -> None:
        self._secrets = secrets
        self._key_file = key_file
        self._cipher: AESGCM | None = None
        self._lock = asyncio.Lock()
        self._writing = asyncio.Lock()
        """A merge must not lose values that are set or removed meanwhile."""

    def __repr__(self) -> str:
        return f"Vault({self._key_file})"

    async def put(self, namespace: str, name: str, data: Mapping[str, str], by: str, now: datetime) -> SealedSecret:
        """Replaces a whole secret of the same name. Raises MizzenError if the key file is not the right one."""
        async with self._writing:
            return await self._put(namespace, name, data, by, now)

    async def merge(self, namespace: str, name: str, data: Mapping[str, str], by: str, now: datetime) -> SealedSecret:
        """Adds or replaces these values of a secret and keeps its others. Creates it if absent."""
        async with self._writing:
            try:
                values = await self._values(namespace, name)
            except NotFound:
                values = {}
            return await self._put(namespace, name, {**values, **data}, by, now)

    async def reveal(self, namespace: str, name: str, key: str) -> str:
        """Returns one value in plaintext: only to start a process, never for a response or a log. Raises NotFound."""
        values = await self._values(namespace, name)
        if key not in values:
            raise NotFound(f"secret '{name}' has no key '{key}'", hint=suggestion(key, sorted(values), "its keys"))
        return values[key]

    async def check(self) -> None:
        """Raises MizzenError if there are secrets that the key file cannot decrypt. Creates nothing."""
        try:
            witness = await self._secrets.get(*WITNESS)
        except NotFound:
            return
        _unseal(AESGCM(await asyncio.to_thread(_key, self._key_file, create=False)), witness, self._key_file)

    async def get(self, namespace: str, name: str) -> SealedSecret:
        """Returns it still sealed. Raises NotFound."""
        return await self._secrets.get(namespace, name)

    async def list(self, namespace: str) -> tuple[SealedSecret, ...]:
        return await self._secrets.list(namespace)

    async def delete(self, namespace: str, name: str) -> None:
        """Needs no key: a secret that can no longer be opened can still be removed. Raises NotFound."""
        async with self._writing:
            await self._secrets.delete(namespace, name)

    async def _values(self, namespace: str, name: str) -> dict[str, str]:
        secret = await self._secrets.get(namespace, name)
        values: dict[str, str] = json.loads(_unseal(await self._open_key(), secret, self._key_file))
        return values

    async def _put(self, namespace: str, name: str, data: Mapping[str, str], by: str, now: datetime) -> SealedSecret:
        sealed = _seal(await self._open_key(), namespace, name, json.dumps(dict(data)).encode())
        secret = SealedSecret(namespace, name, tuple(sorted(data)), sealed, now, by)
        await self._secrets.put(secret)
        return secret

    async def _open_key(self) -> AESGCM:
        """Returns the cipher with the key that all secrets here are sealed with."""
        async with self._lock:
            if self._cipher is None:
                self._cipher = await self._proven()
            return self._cipher

    async def _proven(self) -> AESGCM:
        try:
            witness: SealedSecret | None = await self._secrets.get(*WITNESS)
        except NotFound:
            witness = None
        # Without a witness nothing was ever sealed; only then is creating a new key safe.
        cipher = AESGCM(await asyncio.to_thread(_key, self._key_file, create=witness is None))
        if witness is None:
            sealed = _seal(cipher, *WITNESS, b"")
            await self._secrets.put(SealedSecret(*WITNESS, (), sealed, datetime.fromtimestamp(0, UTC), "system"))
        else:
            _unseal(cipher, witness, self._key_file)
        return cipher


def _seal(cipher: AESGCM, namespace: str, name: str, text: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return FORMAT + nonce + cipher.encrypt(nonce, text, _place(namespace, name))


def _unseal(cipher: AESGCM, secret: SealedSecret, key_file: Path) -> bytes:
    nonce, text = secret.sealed[1 : 1 + NONCE_BYTES], secret.sealed[1 + NONCE_BYTES :]
    try:
        return cipher.decrypt(nonce, text, _place(secret.namespace, secret.name))
    except (InvalidTag, ValueError) as error:
        if (secret.namespace, secret.name) == WITNESS:
            raise MizzenError(
                f"{key_file} does not hold the key that the secrets are encrypted with",
                hint=f"restore the right file as {key_file}; until then no secret can be read or set",
            ) from error
        raise MizzenError(
            f"secret '{secret.name}' in namespace {secret.namespace} is damaged: {key_file} cannot decrypt it",
            hint=f"set the whole secret again: 'mizzen secret set {secret.name} --replace'",
        ) from error


def _place(namespace: str, name: str) -> bytes:
    # Neither contains a '/', so the joined text is unambiguous.
    return FORMAT + f"{namespace}/{name}".encode()


def _key(path: Path, *, create: bool) -> bytes:
    if create:
        with suppress(FileExistsError):
            private_files.create(path, base64.urlsafe_b64encode(randomness.token_bytes(KEY_BYTES)).decode())
    try:
        text = private_files.read(path, "key of the secrets")
    except FileNotFoundError as error:
        raise MizzenError(
            f"{path} does not exist: it holds the key that the secrets are encrypted with",
            hint=f"restore the file as {path}; until then no secret can be read or set",
        ) from error
    try:
        key = base64.urlsafe_b64decode(text.encode())
    except (binascii.Error, UnicodeEncodeError):
        key = b""
    if len(key) != KEY_BYTES:
        raise MizzenError(
            f"{path} is not a key of {KEY_BYTES} bytes", hint=f"restore the right file as {path}; nothing was changed"
        )
    return key
