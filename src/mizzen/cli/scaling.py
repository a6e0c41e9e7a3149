"""scale: how many processes answer."""

from __future__ import annotations

from typing import Annotated

import typer

from mizzen.cli import offers, output
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call


def scale(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An InferenceModel such as iris-1; or a model: what serves its current version.",
            autocompletion=offers.logging_names,
        ),
    ],
    replicas: Annotated[int, typer.Argument(metavar="REPLICAS", min=0, help="Processes that answer; 0: none.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until just so many are ready.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait.")] = 120.0,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Change how many processes answer for a served model.

    \b
    Example:
      mizzen scale iris 3
      mizzen scale iris-1 0 --no-wait
    """
    server = call(data_dir, lambda plane: plane.scale(name, replicas, wait=wait, timeout=timeout), namespace)
    what = "1 replica" if replicas == 1 else f"{replicas} replicas"
    text = f"{server} has {what}" if wait else f"{server} is on its way to {what}"
    output.outcome({"server": server, "replicas": replicas, "ready": wait}, form, text)
