"""The interface of a loaded model, which every framework implements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, runtime_checkable

from mizzen.protocol.tensors import Array
from mizzen.runtime.content.findings import DamagedFile, Unproven
from mizzen.runtime.signature import TensorSpec

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python that a runtime supports

_Result = TypeVar("_Result")


class LoadError(Exception):
    """The model cannot be loaded, and a retry will not help; the message is for the model's author."""


class BadInput(Exception):
    """Raised by a call for values that the model does not accept: a client error, worded for the caller."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """The files to load, and how to load them."""

    framework: str
    entrypoint: str
    trusted: bool = False
    """Its files are allowed to run code when they are loaded."""
    batch: bool = False
    """Requests may share a call of a Python model."""
    inputs: tuple[TensorSpec, ...] = ()
    """As declared in the InferenceModel; empty: the model's own."""
    outputs: tuple[TensorSpec, ...] = ()


class LoadedModel(Protocol):
    @property
    def framework(self) -> str: ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The declared inputs; empty if none are declared."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def table(self) -> TensorSpec | None:
        """A single tensor of whole rows that may be sent instead of all inputs, with one column for each, in order."""
        ...

    @property
    def strict(self) -> bool:
        """Whether requests must match `inputs`, and `outputs` if there are any."""
        ...

    @property
    def batch(self) -> bool:
        """Whether row i of every output depends only on row i of the inputs, so that requests may share a call."""
        ...

    @property
    def refuses(self) -> frozenset[str]:
        """Which of "NaN" and "Infinity" inputs must not hold: a call would raise."""
        ...

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        """Return the named outputs, or the default ones if none is named. It may raise anything; BadInput blames the
        caller."""
        ...

    def close(self) -> None:
        """Called once, when the process shuts down cleanly."""
        ...


class PlainModel:
    """A base for models that take whole inputs only, with all values, and that hold nothing to release."""

    __slots__ = ()

    table: ClassVar[TensorSpec | None] = None
    refuses: ClassVar[frozenset[str]] = frozenset()

    def close(self) -> None:
        """Nothing to do."""


@runtime_checkable
class Reloads(Protocol):
    """A LoadedModel that reloads its parameters itself. Others are loaded a second time, next to the one that
    serves."""

    def reload(self, folder: Path) -> Self:
        """Return the model with the parameters in this folder. Meanwhile this one keeps serving with the old ones."""
        ...


def artifact(folder: Path, entrypoint: str) -> Path:
    """Return the version's file that `entrypoint` names. Raises LoadError if it does not exist."""
    path = PurePosixPath(entrypoint)
    if path.is_absolute() or ".." in path.parts:
        raise LoadError(f"entrypoint '{entrypoint}' must stay within the version's folder")
    file = folder / path
    if not file.is_file():
        there = ", ".join(sorted(child.name for child in folder.iterdir())[:10]) if folder.is_dir() else ""
        raise LoadError(f"this version has no file '{entrypoint}'; it has {there or 'none'}")
    return file


def find_pickle(folder: Path, entrypoint: str, *, trusted: bool) -> Path:
    """Return the file that `entrypoint` names, like `artifact`, for files whose loading runs code."""
    file = artifact(folder, entrypoint)
    demand_trust(f"'{entrypoint}' is a pickle, which runs code when it is loaded", trusted=trusted)
    return file


def demand_trust(what: str, *, trusted: bool) -> None:
    """Raise LoadError for a file that is not trusted. `what`: a clause that says why it must be."""
    if not trusted:
        raise LoadError(f"{what}, and is not marked as trusted: an admin of the model must mark it")


def read_harmless(wanted: LoadRequest, file: Path, inspect: Callable[[bytes], _Result]) -> tuple[bytes, _Result]:
    """Return the content of the file, and what the inspection returned. Raises LoadError, which names the finding.

    Give these bytes to the framework, not the file: they are what was inspected.
    """
    data = file.read_bytes()
    try:
        return data, inspect(data)
    except DamagedFile as error:
        raise LoadError(f"'{file.name}' could not be read: {error}") from error
    except Unproven as error:
        finding = str(error)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever an inspection did not expect is not proven harmless
        finding = f"its inspection failed with {type(error).__name__}"
    demand_trust(f"'{wanted.entrypoint}' may do harm, because {finding}", trusted=wanted.trusted)
    raise AssertionError("trusted files are not inspected")


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


@contextmanager
def unpickling(file: Path) -> Iterator[None]:
    """Name the file in errors if it cannot be read. The error for a missing module needs no addition."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise LoadError(f"'{file.name}' could not be unpickled: {type(error).__name__}: {error}") from error
