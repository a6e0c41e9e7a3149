"""Arrays in numpy's own format. The header is compared with the size of the file before memory is allocated."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from mizzen.runtime.content.findings import DamagedFile, Unproven, quote

_LONGEST_HEADER = 10_000
_KINDS = "biufcSUmM"
"""All but objects, which would be unpickled, and unnamed bytes."""


def read(data: bytes, name: str) -> Any:
    """Return the array. `name`: the file's, for messages."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=_LONGEST_HEADER)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream, max_header_size=_LONGEST_HEADER)
        else:
            raise Unproven(f"the array {quote(name)} has an unusual version of numpy's format")
        _check(dtype, name)
        if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            raise DamagedFile(f"the array {quote(name)} does not have the size that its header states")
        return np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError, EOFError) as error:
        raise DamagedFile(f"the array {quote(name)} cannot be read: {error}") from error


def _check(dtype: Any, name: str) -> None:
    kinds = [dtype.fields[field][0] for field in dtype.names] if dtype.names else [dtype]
    if any(kind.kind not in _KINDS or kind.hasobject or kind.subdtype for kind in kinds):
        raise Unproven(f"the array {quote(name)} holds {quote(dtype)}, which is not a plain number or text")
