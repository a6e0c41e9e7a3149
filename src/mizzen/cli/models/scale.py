"""scale: how many processes answer."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from mizzen.cli import completions, output
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

_LIMITS = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")


def scale(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An InferenceModel such as iris-1; or a model: what serves its current version.",
            autocompletion=completions.logging_names,
        ),
    ],
    replicas: Annotated[
        str,
        typer.Argument(
            metavar="REPLICAS|MIN-MAX",
            help="Processes that answer, 0: none; or limits, such as 0-3, within which they follow the load.",
        ),
    ],
    target: Annotated[int | None, typer.Option(min=1, help="With limits: requests in flight for each process.")] = None,
    quiet: Annotated[
        float | None, typer.Option(min=1, help="With limits: seconds without need before processes end.")
    ] = None,
    standby: Annotated[int | None, typer.Option(min=0, help="With limits: processes beyond those needed.")] = None,
    fixed: Annotated[bool, typer.Option("--fixed", help="The number holds whatever the load: ends limits.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until just so many are ready.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait.")] = 120.0,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Change how many processes answer for a served model, or let that follow the load.

    \b
    Example:
      mizzen scale iris 3
      mizzen scale iris-1 0 --no-wait
      mizzen scale iris 0-3 --quiet 60
      mizzen scale iris 1 --fixed
    """
    found = _LIMITS.fullmatch(replicas)
    more = {"target": target, "quietSeconds": quiet, "standby": standby}
    given = {field: value for field, value in more.items() if value is not None}
    if found is None:
        _refuse(replicas, given)
        count = int(replicas)
        if fixed:
            server = call(
                data_dir,
                lambda plane: plane.autoscale(name, None, replicas=count, wait=wait, timeout=timeout),
                namespace,
            )
        else:
            server = call(data_dir, lambda plane: plane.scale(name, count, wait=wait, timeout=timeout), namespace)
        what = "1 replica" if count == 1 else f"{count} replicas"
        text = f"{server} has {what}" if wait else f"{server} is on its way to {what}"
        output.outcome({"server": server, "replicas": count, "ready": wait}, form, text)
        return
    if fixed:
        raise typer.BadParameter("--fixed needs a number, and no limits")
    limits: dict[str, Any] = {"minReplicas": int(found[1]), "maxReplicas": int(found[2]), **given}
    server = call(data_dir, lambda plane: plane.autoscale(name, limits, wait=wait, timeout=timeout), namespace)
    text = f"{server} has {found[1]} to {found[2]} replicas, as the load asks for"
    output.outcome({"server": server, "autoScale": limits, "ready": wait}, form, text)


def _refuse(replicas: str, given: dict[str, Any]) -> None:
    if not (replicas.isascii() and replicas.isdecimal()):
        raise typer.BadParameter(f"'{replicas}' is neither a number nor limits such as 0-3", param_hint="REPLICAS")
    if given:
        raise typer.BadParameter("--target, --quiet and --standby need limits, such as 1-3", param_hint="REPLICAS")
