"""Which module loads which framework."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mizzen.runtime.frameworks.model import LoadedModel, LoadError


class Loader(Protocol):
    def __call__(self, entrypoint: str, folder: Path, *, trusted: bool, batch: bool) -> LoadedModel: ...


@dataclass(frozen=True, slots=True)
class _Framework:
    module: str
    packages: tuple[str, ...] = ()
    """What the module imports that is not part of a plain installation."""
    extra: str = ""


_FRAMEWORKS = {
    "python": _Framework("mizzen.runtime.frameworks.python"),
    "sklearn": _Framework(
        "mizzen.runtime.frameworks.sklearn", ("sklearn", "joblib", "threadpoolctl", "scipy"), "sklearn"
    ),
}


def load(framework: str, entrypoint: str, folder: Path, *, trusted: bool, batch: bool) -> LoadedModel:
    """The model, ready to answer. LoadError where we know the reason; user code may raise anything else."""
    found = _FRAMEWORKS.get(framework)
    if found is None:
        raise LoadError(f"no framework '{framework}'; there are {', '.join(sorted(_FRAMEWORKS))}")
    try:
        loader: Loader = importlib.import_module(found.module).load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in found.packages:
            raise
        raise LoadError(
            f"framework '{framework}' needs {error.name}, which is not installed: pip install 'mizzen[{found.extra}]'"
        ) from error
    return loader(entrypoint, folder, trusted=trusted, batch=batch)
