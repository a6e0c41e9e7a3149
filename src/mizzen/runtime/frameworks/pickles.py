"""Estimators from joblib and pickle files, of any library."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from mizzen.runtime.frameworks.model import LoadRequest, pickled, unpickling

log = logging.getLogger("mizzen.runtime")


def load(wanted: LoadRequest, folder: Path) -> Any:
    """Return the object in the file. Raises LoadError, or ModuleNotFoundError for a missing module that it needs."""
    import joblib

    file = pickled(folder, wanted.entrypoint, trusted=wanted.trusted)
    with warnings.catch_warnings(record=True) as caught, unpickling(file):
        warnings.simplefilter("always")
        found = joblib.load(file)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        log.warning("while loading %s: %s", file.name, message)
    return found
