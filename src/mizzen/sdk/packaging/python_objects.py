"""Python objects as sources for a version: a fitted estimator, a function, a class, or a path.

Objects are pickled here and unpickled only in the runtime that serves them.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.packaging import source

ESTIMATOR_FILE: Final = "model.joblib"
PICKLED_FILE: Final = "model.cloudpickle"


@contextmanager
def open_source(thing: Any) -> Iterator[source.Source]:
    """Yield the source for `thing`, written to temporary files if needed; these are removed afterwards. Raises Invalid,
    NotFound."""
    if isinstance(thing, str | Path):
        with source.open_source(str(thing), Path.cwd()) as found:
            yield found
    elif inspect.isfunction(thing) or inspect.isclass(thing):
        with _code(thing) as found:
            yield found
    elif _is_estimator(thing):
        _check_fitted(thing)
        with tempfile.TemporaryDirectory(prefix="mizzen-") as folder_name:
            yield source.Source(_dump(thing, Path(folder_name) / ESTIMATOR_FILE), "sklearn")
    elif callable(thing) or callable(getattr(thing, "predict", None)):
        with _pickle_source(thing) as found:
            yield found
    else:
        raise errors.Invalid(
            f"a {type(thing).__name__} cannot be deployed",
            hint="give a fitted estimator, a function, a class with predict(), or a path",
        )


@contextmanager
def _code(thing: Any) -> Iterator[source.Source]:
    """Yield a function or class: as its module's file if another process could import it from there, else pickled."""
    place = _importable_from(thing)
    if place is None:
        with _pickle_source(thing) as found:
            yield found
    else:
        with source.open_source(f"{thing.__module__}:{thing.__qualname__}", place) as found:
            yield found


def _importable_from(thing: Any) -> Path | None:
    """Return the folder from which the thing's module is imported, if importing it there gives the same thing."""
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    if thing.__module__ == "__main__" or file is None or Path(file).suffix != ".py":
        return None
    if getattr(module, thing.__qualname__, None) is not thing:  # local, a lambda, or replaced since
        return None
    depth = thing.__module__.count(".") + (Path(file).name == "__init__.py")
    return Path(file).resolve().parents[depth]


@contextmanager
def _pickle_source(thing: Any) -> Iterator[source.Source]:
    with tempfile.TemporaryDirectory(prefix="mizzen-") as folder:
        yield source.Source(_dump(thing, Path(folder) / PICKLED_FILE), "python", PICKLED_FILE)


def _dump(thing: Any, file: Path) -> Path:
    """Pickle with cloudpickle: definitions in a notebook or in __main__ travel by value."""
    import cloudpickle

    try:
        with file.open("wb") as out:
            cloudpickle.dump(thing, out)
    except Exception as error:  # pickling runs code of the object's own classes: any exception may come
        raise errors.Invalid(
            f"this {type(thing).__name__} cannot be pickled: {error}", hint="deploy it as code: module:object"
        ) from error
    return file


def _is_estimator(thing: Any) -> bool:
    verbs = any(callable(getattr(thing, verb, None)) for verb in ("predict", "transform"))
    return verbs and callable(getattr(thing, "fit", None))


def _check_fitted(estimator: Any) -> None:
    if "sklearn" not in sys.modules or not hasattr(estimator, "get_params"):
        return
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise errors.Invalid(f"this {type(estimator).__name__} is not fitted", hint="call its fit() first") from error
    except TypeError:
        return  # looks like an estimator but not one of scikit-learn's: the runtime will judge
