"""What every framework makes of its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mizzen.protocol.tensors import Array
from mizzen.runtime.signature import TensorSpec

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python a runtime works with


class LoadError(Exception):
    """The model cannot be loaded, however often it is tried; the message is for the person who brought it."""


class BadInput(Exception):
    """Raised by a call for values that the model cannot take: the caller's fault, worded for them."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is to be loaded, and how."""

    framework: str
    entrypoint: str
    trusted: bool = False
    """Its files may run code when they are loaded."""
    batch: bool = False
    """Requests may share a call of a Python model."""
    inputs: tuple[TensorSpec, ...] = ()
    """As whoever serves it declares them; empty: as the model does."""
    outputs: tuple[TensorSpec, ...] = ()


class LoadedModel(Protocol):
    @property
    def framework(self) -> str: ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Empty: nothing is declared."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def table(self) -> TensorSpec | None:
        """One tensor of whole rows that may be sent in place of all inputs, a column for each in their order."""
        ...

    @property
    def strict(self) -> bool:
        """Requests must fit `inputs`, and `outputs` where there are any."""
        ...

    @property
    def batch(self) -> bool:
        """Row i of every output depends on row i of the inputs only, so requests may share a call."""
        ...

    @property
    def refuses(self) -> frozenset[str]:
        """Which of "NaN" and "Infinity" no input may hold: a call would raise."""
        ...

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        """The outputs named, or the default ones when none is. It may raise anything; BadInput blames the caller."""
        ...

    def close(self) -> None:
        """Called once, when the process ends in good order."""
        ...


@runtime_checkable
class Reloads(Protocol):
    """A LoadedModel that reads new parameters itself. All others are loaded anew, beside the one that answers."""

    def reload(self, folder: Path) -> Self:
        """The model with the parameters in this folder. This one goes on answering, with the old ones, meanwhile."""
        ...


def artifact(folder: Path, entrypoint: str) -> Path:
    """The file of the version that `entrypoint` names. LoadError when it is not there."""
    path = PurePosixPath(entrypoint)
    if path.is_absolute() or ".." in path.parts:
        raise LoadError(f"entrypoint '{entrypoint}' must stay within the version's folder")
    file = folder / path
    if not file.is_file():
        there = ", ".join(sorted(child.name for child in folder.iterdir())[:10]) if folder.is_dir() else ""
        raise LoadError(f"no file '{entrypoint}' in this version; it has {there or 'none'}")
    return file


def pickled(folder: Path, entrypoint: str, *, trusted: bool) -> Path:
    """As `artifact`, for a file whose loading runs code."""
    file = artifact(folder, entrypoint)
    demand_trust(f"'{entrypoint}' is a pickle, which runs code when it is loaded", trusted=trusted)
    return file


def demand_trust(what: str, *, trusted: bool) -> None:
    """LoadError for code that nobody who may vouch for it has brought: it would run as the plane's own user."""
    if not trusted:
        raise LoadError(f"{what}, and is not marked as trusted: an admin of the model has to vouch for it")


@contextmanager
def unpickling(file: Path) -> Iterator[None]:
    """Names the file when it cannot be read. A module that is missing speaks for itself."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise LoadError(f"'{file.name}' could not be unpickled: {type(error).__name__}: {error}") from error
