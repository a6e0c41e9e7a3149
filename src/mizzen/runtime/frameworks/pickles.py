"""Estimators from joblib and pickle files, of any library."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mizzen import frameworks
from mizzen.runtime.frameworks.model import LoadRequest, artifact, find_pickle, unpickling

log = logging.getLogger("mizzen.runtime")


def load_or_read(wanted: LoadRequest, folder: Path, read: Callable[[Path], Any]) -> Any:
    """Return the object in a pickle, or `read` of another file."""
    if wanted.entrypoint.endswith(frameworks.PICKLES):
        return load(wanted, folder)
    return read(artifact(folder, wanted.entrypoint))


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
