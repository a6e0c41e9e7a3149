"""A model in plain Python: a function of the inputs, or an object with `predict(inputs)`.

The entrypoint is `module:object` within the version's folder, or a cloudpickle file. A class is instantiated. Then
`load(path)` is called once with the folder, and `close()` at the end, if they exist. `inputs` maps names to arrays. The
answer is an array, which becomes the output `predict`, or a dict from names to arrays.

Attributes `inputs` and `outputs`, lists of {"name", "datatype", "shape"}, declare a signature. Without `inputs` any
request is accepted; with them the model is called with one synthetic row before it is ready. An object with
`reload(path)` takes new parameters without a restart. An object with `feedback` receives feedback between two calls of
`predict`: those of `id`, `reward` and `truth` that it takes by name.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.frameworks.model import LoadError, LoadRequest, PlainModel, demand_trust, find_pickle, unpickling
from mizzen.runtime.signature import TensorSpec

DEFAULT_OUTPUT = "predict"
PICKLES = (".pkl", ".pickle", ".cloudpickle")
FEEDBACK = ("id", "reward", "truth")
"""The feedback an object may receive: the request's id, a reward from 0 to 1, and the expected answer, which is None if
unknown."""

log = logging.getLogger("mizzen.runtime")


def load(wanted: LoadRequest, folder: Path) -> PythonModel:
    """Load the model of an entrypoint. Raises LoadError, or any error of the user's code."""
    entrypoint = wanted.entrypoint
    demand_trust(f"'{entrypoint}' is code", trusted=wanted.trusted)
    # First, so that the version's own modules win over installed ones; a pickle may name such modules, too.
    sys.path.insert(0, str(folder))
    if entrypoint.endswith(PICKLES):
        found = _unpickle(find_pickle(folder, entrypoint, trusted=wanted.trusted))
    else:
        found = _import_object(entrypoint, folder)
    target = found() if isinstance(found, type) else found
    if callable(getattr(target, "load", None)):
        target.load(str(folder))
    predict = _find_predict(target)
    if not callable(predict):
        raise LoadError(f"'{entrypoint}' is a {type(target).__name__}, neither callable nor with a predict method")
    inputs = _specs_of(target, "inputs", entrypoint)
    if wanted.batch:
        for spec in inputs:
            if spec.shape[:1] != (-1,):
                raise LoadError(
                    f"batching merges rows: input '{spec.name}' must have shape [-1, ...], not {[*spec.shape]}"
                )
    outputs = _specs_of(target, "outputs", entrypoint)
    kind = ReloadingModel if callable(getattr(target, "reload", None)) else PythonModel
    return kind(target, predict, inputs, outputs, wanted.batch, feedback=_find_feedback(target, entrypoint))


@dataclass(frozen=True, slots=True)
class PythonModel(PlainModel):
    target: Any
    predict: Callable[[dict[str, Array]], Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch: bool
    framework: str = "python"
    feedback: Callable[[Mapping[str, Any]], None] | None = None
    """Passes the object those parts of `FEEDBACK` that it takes. It may raise anything. None: it takes no feedback."""

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        """Return all outputs of the function: it does not know which ones were requested."""
        given = self.predict(inputs)
        if not isinstance(given, dict):
            return {DEFAULT_OUTPUT: _to_array(DEFAULT_OUTPUT, given)}
        return {str(name): _to_array(str(name), value) for name, value in given.items()}

    def close(self) -> None:
        close = getattr(self.target, "close", None)
        if callable(close):
            close()


class ReloadingModel(PythonModel):
    """A model whose object has `reload(path)`."""

    __slots__ = ()

    def reload(self, folder: Path) -> ReloadingModel:
        """Call `reload` on a copy of the object, which then replaces it, so that no request sees both parameters.

        The copy shares the object's attributes. If `reload` changes one of them in place instead of assigning a new
        one, requests see the change before it is complete.
        """
        target = copy.copy(self.target)
        target.reload(str(folder))
        return replace(self, target=target, predict=_find_predict(target), feedback=_find_feedback(target, "reload"))


def _find_predict(target: Any) -> Any:
    return getattr(target, "predict", None) or target


def _find_feedback(target: Any, entrypoint: str) -> Callable[[Mapping[str, Any]], None] | None:
    """Return the feedback method; None also if it requires other arguments: it may serve another purpose."""
    method = getattr(target, "feedback", None)
    if not callable(method):
        return None
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # written in another language: assume that it takes all of them by name
        names: tuple[str, ...] = FEEDBACK
    else:
        whole = any(each.kind is each.VAR_KEYWORD for each in parameters)
        named = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        names = tuple(name for name in FEEDBACK if whole or name in named)
        open_ = {each.name for each in parameters if each.default is each.empty}
        variadic = {each.name for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
        if more := open_ - variadic - set(names):
            log.warning(
                "'feedback' of '%s' is not called: it requires '%s', but gets only %s, by name",
                entrypoint, min(more), ", ".join(FEEDBACK),
            )  # fmt: skip
            return None
    return lambda body: method(**{name: body.get(name) for name in names})


def _unpickle(file: Path) -> Any:
    import cloudpickle

    with unpickling(file), file.open("rb") as stream:
        return cloudpickle.load(stream)


def _import_object(entrypoint: str, folder: Path) -> Any:
    module_name, colon, path = entrypoint.partition(":")
    if not colon or not module_name or not path:
        raise LoadError(f"entrypoint '{entrypoint}' must be 'module:object' or a file ending in {', '.join(PICKLES)}")
    top = module_name.partition(".")[0]
    if not all(part.isidentifier() for part in module_name.split(".")) or _found_in(folder, top) is None:
        raise LoadError(f"entrypoint '{entrypoint}': module '{module_name}' is not among the files of this version")
    if top in sys.modules:
        raise LoadError(f"module '{top}' of this version has the same name as one that is already imported: rename it")
    module = importlib.import_module(module_name)
    if not _lies_in(folder, module):
        raise LoadError(f"an installed module '{module_name}' hides the one of this version: rename it")
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise LoadError(f"entrypoint '{entrypoint}': {error}") from error


def _found_in(folder: Path, module: str) -> ModuleSpec | None:
    return PathFinder.find_spec(module, [str(folder)])


def _lies_in(folder: Path, module: ModuleType) -> bool:
    """Return whether the version brought this module. An installed package wins over a folder without __init__.py."""
    return module.__file__ is not None and Path(module.__file__).resolve().is_relative_to(folder.resolve())


def _specs_of(target: Any, attribute: str, entrypoint: str) -> tuple[TensorSpec, ...]:
    declared = getattr(target, attribute, None)
    if declared is None:
        return ()
    if not isinstance(declared, list | tuple):
        raise LoadError(f"'{attribute}' of '{entrypoint}' must be a list of tensors, not {type(declared).__name__}")
    try:
        specs = tuple(TensorSpec.of(one) for one in declared)
    except ValueError as error:
        raise LoadError(f"'{attribute}' of '{entrypoint}': {error}") from error
    if len({spec.name for spec in specs}) < len(specs):
        raise LoadError(f"'{attribute}' of '{entrypoint}' declares a name twice")
    return specs


def _to_array(name: str, value: Any) -> Array:
    if value is None:
        raise TypeError(f"predict returned None for '{name}', not an array")
    return np.atleast_1d(np.asarray(value))
