"""MLflow's model folders: the file `MLmodel` describes their content.

If the folder holds a file that another module here can load, that module loads it: cost and answers are those of the
plain model, and MLflow need not be installed. All other models are called as Python functions, through MLflow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from mizzen import frameworks
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, artifact, demand_trust
from mizzen.runtime.limits import install_hints

DESCRIPTION = "MLmodel"

_Content = Mapping[str, Any]


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    home, flavors, description = _read_description(wanted, folder)
    for flavor, find in _NATIVE.items():
        if flavor not in flavors:
            continue
        native = find(flavors[flavor], folder / home)
        if native is not None:
            framework, file = native
            _import_from(flavors[flavor].get("code"), folder / home, wanted)
            return registry.loader(framework)(replace(wanted, framework=framework, entrypoint=str(home / file)), folder)
    if "python_function" not in flavors:
        raise LoadError(f"no flavor of '{wanted.entrypoint}' can be served here: it has {', '.join(flavors) or 'none'}")
    demand_trust(f"'{wanted.entrypoint}' is loaded by Python code", trusted=wanted.trusted)
    try:
        from mizzen.runtime.frameworks import pyfunc
    except ModuleNotFoundError as error:
        advice = install_hints.advice(str(error.name), os.environ, frameworks.TABLE["mlflow"])
        raise LoadError(f"'{wanted.entrypoint}' needs {error.name}, which is not installed: {advice}") from error
    return pyfunc.load(wanted, folder / home, description)


def _read_description(wanted: LoadRequest, folder: Path) -> tuple[PurePosixPath, dict[str, _Content], _Content]:
    """Return the model's folder within the version's, its flavors, and the whole description."""
    path = PurePosixPath(wanted.entrypoint)
    file = artifact(folder, str(path if path.name == DESCRIPTION else path / DESCRIPTION))
    try:
        content = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LoadError(f"'{wanted.entrypoint}' could not be read: {error}") from error
    flavors = content.get("flavors") if isinstance(content, dict) else None
    if not isinstance(flavors, dict) or not all(isinstance(one, dict) for one in flavors.values()):
        raise LoadError(f"'{wanted.entrypoint}' does not list its flavors; save the model with MLflow")
    return path.parent if path.name == DESCRIPTION else path, flavors, content


def _import_from(code: Any, home: Path, wanted: LoadRequest) -> None:
    """Make modules next to the model importable, which its pickle imports."""
    if isinstance(code, str) and (home / code).is_dir():
        demand_trust(f"'{wanted.entrypoint}' contains Python code", trusted=wanted.trusted)
        sys.path.insert(0, str(home / code))


def _find_file(key: str, framework: str) -> Callable[[_Content, Path], tuple[str, str] | None]:
    """The flavor names its file under this key."""

    def find(content: _Content, home: Path) -> tuple[str, str] | None:
        file = content.get(key)
        return (framework, file) if isinstance(file, str) and (home / file).is_file() else None

    return find


def _find_saved_model(content: _Content, home: Path) -> tuple[str, str] | None:
    for folder in (content.get("saved_model_dir"), content.get("data")):
        if not isinstance(folder, str):
            continue
        for file in ("saved_model.pb", "model/saved_model.pb", "model.keras"):
            if (home / folder / file).is_file():
                return "tensorflow", f"{folder}/{file}"
    return None


def _find_program(content: _Content, home: Path) -> tuple[str, str] | None:
    """Only programs: a pickled module needs files that MLflow stores next to it."""
    folder = content.get("model_data")
    found = f"{folder}/model.pt2"
    return ("pytorch", found) if isinstance(folder, str) and (home / found).is_file() else None


_NATIVE: Mapping[str, Callable[[_Content, Path], tuple[str, str] | None]] = {
    "sklearn": _find_file("pickled_model", "sklearn"),
    "xgboost": _find_file("data", "xgboost"),
    "lightgbm": _find_file("data", "lightgbm"),
    "onnx": _find_file("data", "onnx"),
    "tensorflow": _find_saved_model,
    "keras": _find_saved_model,
    "pytorch": _find_program,
}
