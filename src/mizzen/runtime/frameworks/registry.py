"""Loading models by the name of their framework."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mizzen import frameworks, plugins
from mizzen.frameworks import Framework
from mizzen.runtime import declared_signature
from mizzen.runtime.estimators.warmup import warm_up
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, Reloads
from mizzen.runtime.limits import install_hints
from mizzen.runtime.signature import TensorSpec


class Loader(Protocol):
    def __call__(self, wanted: LoadRequest, folder: Path) -> LoadedModel: ...


def load(
    framework: str,
    entrypoint: str,
    folder: Path,
    *,
    trusted: bool,
    batch: bool,
    inputs: tuple[TensorSpec, ...] = (),
    outputs: tuple[TensorSpec, ...] = (),
) -> LoadedModel:
    """Return the model, ready to serve. Raises LoadError for known causes; user code may raise anything else."""
    return load_wanted(LoadRequest(framework, entrypoint, trusted, batch, inputs, outputs), folder)


def load_wanted(wanted: LoadRequest, folder: Path) -> LoadedModel:
    model = declared_signature.apply(loader(wanted.framework)(wanted, folder), wanted.inputs, wanted.outputs)
    if wanted.framework == "python":  # the others were already called, to learn their outputs
        warm_up(model)
    return model


def loader(name: str) -> Loader:
    """Return the framework's loader. Raises LoadError if it is unknown or cannot be imported."""
    found = frameworks.TABLE.get(name) or _load_plugin(name)
    assert found.loader is not None
    try:
        load_files: Loader = importlib.import_module(found.loader).load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in found.packages:
            raise
        advice = install_hints.advice(str(error.name), os.environ, found)
        raise LoadError(f"framework '{name}' needs {error.name}, which is not installed: {advice}") from error
    except Exception as error:
        # The library is installed but cannot be loaded: a system library is missing, or it was built for another numpy.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise LoadError(f"framework '{name}' is installed but cannot be imported: {said}") from error
    return load_files


def reload(model: LoadedModel, wanted: LoadRequest, folder: Path) -> LoadedModel:
    """Return a model with the parameters of this folder, to replace one that keeps serving meanwhile. Raises as `load`.

    Callers know the old signature: raises LoadError if the new one differs.
    """
    inner = _unwrap(model)
    if isinstance(inner, Reloads):
        new = declared_signature.apply(inner.reload(folder), wanted.inputs, wanted.outputs)
    elif wanted.framework == "python":
        raise LoadError("this model has no reload(path): restart it to load new parameters")
    else:
        new = load_wanted(wanted, folder)
    if _signature(new) != _signature(model):
        raise LoadError("the new parameters change the inputs or outputs of the model: restart it to load them")
    return new


def reloads(model: LoadedModel) -> bool:
    """Return whether it reloads parameters itself."""
    return isinstance(_unwrap(model), Reloads)


def feedback_hook(model: LoadedModel) -> Callable[[Mapping[str, Any]], None] | None:
    """Return the function that takes feedback; None if the model does not want any."""
    found: Callable[[Mapping[str, Any]], None] | None = getattr(_unwrap(model), "feedback", None)
    return found


def _unwrap(model: LoadedModel) -> LoadedModel:
    return model.model if isinstance(model, declared_signature.DeclaredModel) else model


def _signature(model: LoadedModel) -> tuple[object, ...]:
    return model.inputs, model.outputs, model.table, model.strict, model.batch


def _load_plugin(name: str) -> Framework:
    """Import a plug-in's framework here: in this process it can harm only itself."""
    entry = plugins.entry(plugins.FRAMEWORKS, name)
    if entry is None:
        there = ", ".join([*frameworks.NAMES, *(one.name for one in plugins.entries(plugins.FRAMEWORKS))])
        raise LoadError(
            f"framework '{name}' is not supported; supported are {there}; packages can add others as plug-ins"
        )
    try:
        return Framework.of(entry.load().to_json(), name, plugins.package_of(entry))
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise LoadError(f"the plug-in {plugins.broken(entry, said)}") from error
