"""What every command that talks to a plane shares: its options, and a client for the time of one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mizzen.cli import completions, output
from mizzen.cli.output import Format

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

T = TypeVar("T")


def _folder(name: str) -> Path:
    if not name:  # a variable that was not set, most likely; Path would take it for the current folder
        raise typer.BadParameter("the name is empty")
    return Path(name)


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=_folder,
        help="Data dir of the plane [default: MIZZEN_DATA_DIR, else .mizzen].",
    ),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="How to print the result.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace [default: default].",
        show_default=False,
        autocompletion=completions.namespaces,
    ),
]


def call(data_dir: Path | None, work: Callable[[AsyncPlane], Awaitable[T]], namespace: str | None = None) -> T:
    """The result of `work` on the plane that is meant. What the plane finds odd is told on stderr, each once."""
    from mizzen.sdk.connection import locate

    place = locate.find(data_dir=data_dir)  # first: without a plane there is no need to wait for the HTTP client
    from mizzen.sdk.client import AsyncPlane

    told: set[str] = set()

    def warned(text: str) -> None:
        if text not in told:
            told.add(text)
            output.warn(text)

    async def session() -> T:
        async with AsyncPlane(place, namespace=namespace or "default", on_warning=warned) as plane:
            return await work(plane)

    return asyncio.run(session())
