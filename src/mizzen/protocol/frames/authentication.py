"""The proof that a peer of a runtime belongs to the plane: it can read the key file next to the socket.

Other models on the machine can connect to the socket, but they cannot read the file. The runtime sends CHALLENGE with
a nonce, and answers nothing before an AUTH frame with the nonce's HMAC.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

NONCE_BYTES = 16
_KEY_BYTES = 32


def key_path(socket: str) -> Path:
    """The key file of the socket at this path."""
    return Path(f"{socket}.key")


def load_or_create(path: Path) -> bytes:
    """Raises OSError."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) != _KEY_BYTES:
        key = os.urandom(_KEY_BYTES)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(key)
    return key


def proof(key: bytes, nonce: bytes | memoryview) -> bytes:
    return hmac.digest(key, nonce, "sha256")


def prove(socket: str, nonce: bytes | memoryview) -> bytes:
    """The body of an AUTH frame for a runtime at this path. Raises OSError if its key cannot be read.

    Models may write to the folder of the key: a link could name another model's key, and a pipe would block.
    """
    handle = os.open(key_path(socket), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        key = os.read(handle, _KEY_BYTES + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    if len(key) != _KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise OSError(f"{key_path(socket)} is not a key, or its owner sent no proper challenge")
    return proof(key, nonce)
