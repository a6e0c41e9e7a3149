"""The key that monitoring tools require. They listen where every account of this machine can connect.

Both sides read it from a file (`mizzen.showing.gate`); it is in no argument, environment variable, object or log.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from mizzen.errors import MizzenError
from mizzen.stores.records import private_files

FILE: Final = "show-key"
HEADER: Final = "mizzen-show-key"
BYTES: Final = 32


def read_or_create(run: Path) -> str:
    """The key in this folder; a new one if there is none, or if others could have read it. Raises OSError."""
    file = run / FILE
    if not file.exists():
        with suppress(FileExistsError):
            private_files.create(file, secrets.token_hex(BYTES))
    try:
        key = private_files.read(file, "key of the monitors' tools")
    except MizzenError:  # readable by others
        key = ""
    if len(key) != 2 * BYTES or not key.isascii():
        key = secrets.token_hex(BYTES)
        private_files.replace(file, key.encode())
    return key
