"""Estimators from joblib and pickle files, of any library."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mizzen import frameworks
from mizzen.runtime.frameworks.model import LoadRequest, artifact, find_pickle, read_harmless, unpickling

log = logging.getLogger("mizzen.runtime")


def load_or_read(
    wanted: LoadRequest, folder: Path, inspect: Callable[[bytes], None], read: Callable[[Path, bytes | None], Any]
) -> Any:
    """Return the object in a pickle, or `read` of another file.

    `read` gets the path of a trusted file, or the content of a file that `inspect` has proven harmless.
    """
    if wanted.entrypoint.endswith(frameworks.PICKLES):
        return load(wanted, folder)
    file = artifact(folder, wanted.entrypoint)
    return read(file, None if wanted.trusted else read_harmless(wanted, file, inspect)[0])


def load(wanted: LoadRequest, folder: Path) -> Any:
    """Return the object in the file. Raises LoadError, or ModuleNotFoundError for a missing module that it needs."""
    import joblib

    file = find_pickle(folder, wanted.entrypoint, trusted=wanted.trusted)
    with warnings.catch_warnings(record=True) as caught, unpickling(file):
        warnings.simplefilter("always")
        found = joblib.load(file)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        log.warning("while loading %s: %s", file.name, message)
    return found
