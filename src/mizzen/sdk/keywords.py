"""Keywords that several calls take, each declared once and typed for callers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

if TYPE_CHECKING:
    from mizzen.sdk.connection.warnings import Warned
    from mizzen.sdk.packaging.requirements import Required

Call = TypeVar("Call", bound=Callable[..., Any])


class EnvironmentKeywords(TypedDict, total=False):
    """The Python environment that a version runs in."""

    requirements: Required | None
    python: str | None


class LoadKeywords(EnvironmentKeywords, total=False):
    """How a version is loaded."""

    framework: str | None
    entrypoint: str | None


class VersionKeywords(LoadKeywords, total=False):
    """The source of a version, its name and its labels."""

    git: str | Mapping[str, str] | None
    url: str | None
    sha256: str | None
    version: str | int | None
    labels: Mapping[str, str] | None
    training: bool
    progress: Callable[[int, int | None], None] | None


class WriteKeywords(TypedDict, total=False):
    """How an object is written, or only checked."""

    dry_run: bool
    assume: Sequence[str] | None
    on_warning: Warned | None


class PredictKeywords(TypedDict, total=False):
    """What a prediction request holds besides its inputs."""

    outputs: Sequence[str] | None
    id: str | None
    timeout_ms: int | None


class JobKeywords(TypedDict, total=False):
    """How a job runs: its replicas, their resources and environment, and when it ends."""

    replicas: int | Mapping[str, Any] | None
    env: Mapping[str, Any] | None
    restart: str | None
    deadline: float | str | None
    cpu: float | str | None
    memory: str | None
    gpu: float | None
    priority: int | None
    keep: int | None


def takes(options: Any) -> Callable[[Call], Call]:
    """Show the fields of `options` in the signature of a function that takes them as `**options`; reject others.

    Flags default to False, all others to None.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    types = {name: hint.__forward_arg__ for name, hint in options.__annotations__.items()}
    keywords = [
        inspect.Parameter(name, kind, default=False if type_ == "bool" else None, annotation=type_)
        for name, type_ in types.items()
    ]

    def declare(function: Call) -> Call:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        known = {each.name for each in (*own, *keywords)}

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            if unknown := given.keys() - known:
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument '{min(unknown)}'")
            return function(*args, **given)

        call.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return declare
