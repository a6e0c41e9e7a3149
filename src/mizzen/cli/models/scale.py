"""`mizzen scale`: the number of replicas of a server."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from mizzen.cli import completions
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")


def scale(
    *,
    name: Annotated[
        str,
        argument(
            "NAME",
            "InferenceModel such as iris-1, or a model: the server of its current version.",
            completions.logging_names,
        ),
    ],
    replicas: Annotated[
        str, argument("REPLICAS|MIN-MAX", "Number of replicas, 0 for none; or a range such as 0-3, to scale with load.")
    ],
    target: Annotated[int | None, option("With a range: requests in flight per replica.", min=1)] = None,
    quiet: Annotated[float | None, option("With a range: seconds after which unneeded replicas stop.", min=1)] = None,
    standby: Annotated[int | None, option("With a range: spare replicas to keep ready.", min=0)] = None,
    fixed: Annotated[bool, option("Turn off scaling with load; keep this number.", "--fixed")] = False,
    wait: Annotated[bool, option("Wait until exactly that many are ready.", "--wait/--no-wait")] = True,
    timeout: Annotated[float, option("Seconds to wait.", min=0.1)] = 120.0,
    session: Session,
) -> None:
    """Set the replicas of a served model, or scale it with load.

    \b
    Example:
      mizzen scale iris 3
      mizzen scale iris-1 0 --no-wait
      mizzen scale iris 0-3 --quiet 60
      mizzen scale iris 1 --fixed
    """
    found = _RANGE.fullmatch(replicas)
    more = {"target": target, "quietSeconds": quiet, "standby": standby}
    given = {field: value for field, value in more.items() if value is not None}
    if found is None:
        _check_count(replicas, given)
        count = int(replicas)
        if fixed:
            server = session.call(
                lambda plane: plane.autoscale(name, None, replicas=count, wait=wait, timeout=timeout),
            )
        else:
            server = session.call(lambda plane: plane.scale(name, count, wait=wait, timeout=timeout))
        what = "1 replica" if count == 1 else f"{count} replicas"
        text = f"{server} has {what}" if wait else f"{server} is scaling to {what}"
        session.write_outcome({"server": server, "replicas": count, "ready": wait}, text)
        return
    if fixed:
        raise typer.BadParameter("--fixed needs a number, not a range")
    limits: dict[str, Any] = {"minReplicas": int(found[1]), "maxReplicas": int(found[2]), **given}
    server = session.call(lambda plane: plane.autoscale(name, limits, wait=wait, timeout=timeout))
    text = f"{server} has {found[1]} to {found[2]} replicas, depending on load"
    session.write_outcome({"server": server, "autoScale": limits, "ready": wait}, text)


def _check_count(replicas: str, given: dict[str, Any]) -> None:
    if not (replicas.isascii() and replicas.isdecimal()):
        raise typer.BadParameter(f"'{replicas}' is neither a number nor a range such as 0-3", param_hint="REPLICAS")
    if given:
        raise typer.BadParameter("--target, --quiet and --standby need a range, such as 1-3", param_hint="REPLICAS")
