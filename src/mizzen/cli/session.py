"""Options that commands on a plane share, and a client for the duration of one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mizzen.cli import completions, output
from mizzen.cli.output import Printer
from mizzen.cli.parameters import option

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

T = TypeVar("T")


def _parse_folder(name: str) -> Path:
    if not name:  # most likely an unset variable; Path would read it as the current folder
        raise typer.BadParameter("the name is empty")
    return Path(name)


DataDir = Annotated[
    Path | None,
    option(
        "Data dir of the plane [default: MIZZEN_DATA_DIR, else .mizzen].",
        "--data-dir",
        metavar="DIR",
        parser=_parse_folder,
    ),
]
Namespace = Annotated[
    str | None,
    option(
        "Namespace [default: default].",
        "--namespace",
        "-n",
        metavar="NAME",
        show_default=False,
        autocompletion=completions.namespaces,
    ),
]


@dataclass(frozen=True)
class PlaneConnection:
    """Options of a command that calls a plane within a namespace."""

    namespace: Namespace = None
    data_dir: DataDir = None

    def call(self, work: Callable[[AsyncPlane], Awaitable[T]], patience: float = 3.0) -> T:
        """Run `work` with a client of the plane and return its result. Prints each warning of the plane once, on
        stderr.

        `patience`: seconds to retry a broken connection.
        """
        from mizzen.sdk.connection import locate

        place = locate.find(data_dir=self.data_dir)  # first: without a plane, do not spend time on the HTTP client
        from mizzen.sdk.client import AsyncPlane

        warnings: set[str] = set()

        def warn_once(text: str) -> None:
            if text not in warnings:
                warnings.add(text)
                output.warn(text)

        async def session() -> T:
            scope = self.namespace or "default"
            async with AsyncPlane(place, namespace=scope, patience=patience, on_warning=warn_once) as plane:
                return await work(plane)

        return asyncio.run(session())


@dataclass(frozen=True)
class Session(PlaneConnection, Printer):
    """Options of a command that calls a plane within a namespace, and prints a result."""


@dataclass(frozen=True)
class PlaneSession(Printer):
    """Options of a command on a whole plane, which prints a result."""

    data_dir: DataDir = None

    def call(self, work: Callable[[AsyncPlane], Awaitable[T]]) -> T:
        """Like `PlaneConnection.call`, in the default namespace."""
        return PlaneConnection(data_dir=self.data_dir).call(work)
