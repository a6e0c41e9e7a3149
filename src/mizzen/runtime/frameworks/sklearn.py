"""scikit-learn models from joblib, pickle and skops files. Their inputs and outputs are in `estimators.estimator`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import joblib  # noqa: F401 - report a missing package before the file is read

from mizzen.runtime.content.skops import inspection
from mizzen.runtime.estimators import estimator
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadError, LoadRequest, artifact, read_harmless
from mizzen.runtime.limits import install_hints


def load(wanted: LoadRequest, folder: Path) -> estimator.EstimatorModel:
    read = _from_skops if wanted.entrypoint.endswith(".skops") else pickles.load
    return estimator.to_model(read(wanted, folder), wanted)


def _from_skops(wanted: LoadRequest, folder: Path) -> Any:
    """Load with skops. It creates all types in a trusted file, and those that an inspection allows in others."""
    file = artifact(folder, wanted.entrypoint)
    try:
        import skops.io
    except ImportError as error:
        advice = install_hints.advice("skops", os.environ)
        raise LoadError(f"'{wanted.entrypoint}' needs skops: {advice} ({error})") from error
    try:
        if wanted.trusted:
            return skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
        data, harmless = read_harmless(wanted, file, inspection.inspect)
        return skops.io.loads(data, trusted=sorted(harmless))
    except (LoadError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise LoadError(f"'{file.name}' could not be read by skops: {type(error).__name__}: {error}") from error
