"""scikit-learn models from joblib, pickle and skops files. Their inputs and outputs are in `estimators.estimator`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import joblib  # noqa: F401 - report a missing package before the file is read

from mizzen.runtime.estimators import estimator
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadError, LoadRequest, artifact, demand_trust
from mizzen.runtime.limits import install_hints


def load(wanted: LoadRequest, folder: Path) -> estimator.EstimatorModel:
    read = _from_skops if wanted.entrypoint.endswith(".skops") else pickles.load
    return estimator.to_model(read(wanted, folder), wanted)


def _from_skops(wanted: LoadRequest, folder: Path) -> Any:
    """Load with skops, which creates only types it knows to be safe and those it is allowed: for a trusted file,
    all."""
    file = artifact(folder, wanted.entrypoint)
    try:
        import skops.io
    except ImportError as error:
        advice = install_hints.advice("skops", os.environ)
        raise LoadError(f"'{wanted.entrypoint}' needs skops: {advice} ({error})") from error
    try:
        unknown = skops.io.get_untrusted_types(file=file)
        if unknown:
            named = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
            demand_trust(f"'{wanted.entrypoint}' holds types unknown to skops: {named}", trusted=wanted.trusted)
        return skops.io.load(file, trusted=unknown)
    except (LoadError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise LoadError(f"'{file.name}' could not be read by skops: {type(error).__name__}: {error}") from error
