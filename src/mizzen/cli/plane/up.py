"""`mizzen up`, `down` and `status`: the plane on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.parameters import option
from mizzen.cli.session import DataDir, PlaneSession

if TYPE_CHECKING:
    from mizzen.sdk.connection.locate import PlaneAddress
    from mizzen.supervisor.data_dir import Home

_PATIENCE: Final = 2.0
_PROCESS_FIELDS: Final = ("key", "state", "pid", "restarts", "message")


def up(
    *,
    host: Annotated[str | None, option("Address to listen on [default: 127.0.0.1].")] = None,
    port: Annotated[int | None, option("Control API port; 0 picks a free one [default: 8470].")] = None,
    inference_port: Annotated[int | None, option("Inference API port; 0 picks a free one [default: 8471].")] = None,
    grpc_port: Annotated[int | None, option("Inference API port for gRPC; 0 picks a free one [default: 8472].")] = None,
    tls_port: Annotated[int | None, option("Control API port for TLS; 0 picks a free one [default: 8473].")] = None,
    inference_tls: Annotated[
        bool, option("Serve the inference API over TLS, with the CA in the data dir.", "--inference-tls")
    ] = False,
    gateways: Annotated[int | None, option("Number of gateway processes [default: 1].")] = None,
    insecure: Annotated[
        bool, option("Allow an address that others can reach, even without TLS; requires tokens.", "--insecure")
    ] = False,
    run_models_as: Annotated[
        str | None, option("User that models, jobs and builds run as; only if root starts the plane.")
    ] = None,
    demo: Annotated[bool, option("Train a small model and serve it as 'iris'.", "--demo")] = False,
    detach: Annotated[bool, option("Return once the plane is ready; 'mizzen down' stops it.", "--detach")] = False,
    data_dir: DataDir = None,
) -> None:
    """Start a plane, or show the one that is running.

    \b
    Example:
      mizzen up --demo
      mizzen up --port 0 --inference-port 0 --grpc-port 0 --tls-port 0 --detach
      mizzen up --host 192.168.7.4 --inference-tls
    """
    from mizzen.cli.plane import foreground
    from mizzen.settings import Settings

    began = time.monotonic()
    flags = {
        "host": host, "port": port, "inference_port": inference_port, "grpc_port": grpc_port, "tls_port": tls_port,
        "gateways": gateways, "insecure": insecure or None, "inference_tls": inference_tls or None,
        "run_models_as": run_models_as,
    }  # fmt: skip
    settings = Settings.load(flags | {"data_dir": data_dir})
    foreground.run(settings, flags, demo=demo, detach=detach, began=began)


def down(
    *,
    keep_training: Annotated[
        bool, option("Leave training jobs running; the next 'mizzen up' takes them over.", "--keep-training")
    ] = False,
    session: PlaneSession,
) -> None:
    """Stop the plane and everything it runs. This works even if parts of it have died.

    Training jobs continue when the plane starts again. With --keep-training they keep running meanwhile; otherwise they
    resume from their last checkpoint.

    \b
    Example:
      mizzen down
      mizzen down --keep-training
    """
    from mizzen.sdk.connection import locate, stop
    from mizzen.supervisor.data_dir import Home

    folder = locate.data_dir_of(session.data_dir)
    home = Home.of(folder)
    ended = stop.stop(home, keep_training=keep_training)
    left = stop.describe_processes(trains := stop.trains(home), trains) if keep_training else []
    text = f"stopped {', '.join(ended)}" if ended else f"no plane runs in {folder}"
    result = {"ended": ended, "left": left} if keep_training else {"ended": ended}
    session.write_outcome(result, f"{text}; {left[0]} left running" if left else text)


def status(session: PlaneSession) -> None:
    """Show the addresses of the plane and the processes it runs.

    \b
    Example:
      mizzen status -o json
    """
    from mizzen.sdk.connection import locate, stop
    from mizzen.supervisor import client
    from mizzen.supervisor.data_dir import Home

    home = Home.of(locate.data_dir_of(session.data_dir))
    with _mention_training(home):
        place = locate.in_data_dir(locate.data_dir_of(session.data_dir))
    try:
        info, processes = stop.ask(home, "info"), _mark_stopped(stop.ask(home, "list")["processes"])
    except client.SupervisorGone as error:
        raise stop.explain_silence(home) from error
    replicas, confinement = _list_replicas(place), _confinement(place)
    found: dict[str, Any] = {
        "control_url": place.control_url,
        "tls_url": place.tls_url,
        "inference_url": place.inference_url,
        "grpc_address": place.grpc_address,
        "data_dir": str(home.data_dir),
        "disk": _disk(home),
        "confinement": confinement,
        "collection_held": _collection_held(home),
        "pid": next((process["pid"] for process in processes if process["key"] == "plane"), None),
        "supervisor_pid": info["pid"],
        "processes": [
            {name: process[name] for name in _PROCESS_FIELDS} | _server_of(process["key"], replicas)
            for process in processes
        ],
    }
    if session.form is not Format.TABLE:
        session.write_data(found)
        return
    if found["disk"]["level"] != "enough":
        output.warn(f"the disk of the data dir: {found['disk']['message']}")
    if found["collection_held"]:
        output.warn(f"files without a reference are kept: {found['collection_held']}; see 'mizzen doctor'")
    if confinement.get("status") == "False":
        output.warn(confinement["message"])
    for key in ("control_url", "tls_url", "inference_url", "grpc_address", "data_dir", "supervisor_pid"):
        output.write(f"{key.replace('_', ' '):<15} {found[key] or ''}")
    if confinement.get("status") == "True":
        output.write(f"{'confinement':<15} {confinement['message']}")
    output.write()
    output.write_table(
        ("PROCESS", "STATE", "PID", "RESTARTS", "MESSAGE"),
        (
            (_process_name(each), each["state"], str(each["pid"] or ""), str(each["restarts"]), each["message"])
            for each in found["processes"]
        ),
    )


def _mark_stopped(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A stopped process is running for its supervisor, but answers nothing."""
    from mizzen.supervisor.processes import procfs

    for process in processes:
        if process["pid"] and procfs.is_stopped(process["pid"]):
            process["message"] = f"stopped by a signal; continue it with 'kill -CONT {process['pid']}'"
    return processes


@contextmanager
def _mention_training(home: Home) -> Iterator[None]:
    """If no plane runs, add to the error which training jobs it left running on request."""
    from mizzen.sdk.connection import stop

    try:
        yield
    except errors.Unavailable as error:
        trains = stop.trains(home)
        if not trains:
            raise
        left = stop.describe_processes(trains, trains)[0]
        hint = "'mizzen up' takes them over, 'mizzen down' stops them"
        raise errors.Unavailable(f"{error.message}; {left} left running", hint=hint) from error


def _disk(home: Home) -> dict[str, Any]:
    """Free disk space, and its level by the thresholds that the plane was started with."""
    from mizzen.assemble import boot
    from mizzen.blobs.disk_room import Room, free_bytes

    settings = boot.settings_of(home)
    low, critical = (settings.disk_low_bytes, settings.disk_critical_bytes) if settings else (0, 0)
    room = Room(home.data_dir, low, critical)
    return {"free": free_bytes(home.data_dir), "level": str(room.level()), "message": room.describe()}


def _collection_held(home: Home) -> str:
    """Why garbage collection waits; empty: it does not."""
    from mizzen.stores.marks import checkpoint

    try:
        mark = checkpoint.read(checkpoint.path_of(home.data_dir / "mizzen.db"))
    except checkpoint.DamagedCheckpoint:
        return ""
    return mark.held if mark is not None else ""


def _confinement(place: PlaneAddress) -> dict[str, str]:
    """How this machine confines models: status and message of the Node's condition; empty if the plane does not
    answer."""
    from mizzen.sdk.client import AsyncPlane

    async def ask() -> dict[str, str]:
        async with asyncio.timeout(_PATIENCE), AsyncPlane(place, patience=0.0) as plane:
            nodes = (await plane.list("nodes"))["items"]
        found = [each for node in nodes for each in (node.get("status") or {}).get("conditions") or ()]
        return next(
            (
                {"status": each["status"], "message": str(each.get("message") or "")}
                for each in found
                if each["type"] == "ModelsConfined"
            ),
            {},
        )

    try:
        return asyncio.run(ask())
    except (errors.MizzenError, TimeoutError):
        return {}


def _list_replicas(place: PlaneAddress) -> dict[str, dict[str, str]]:
    """Model and InferenceModel by Workload uid; empty if the plane does not answer."""
    from mizzen.sdk.client import AsyncPlane

    async def ask() -> dict[str, dict[str, str]]:
        # A plane that is restarting accepts connections but does not answer.
        async with asyncio.timeout(_PATIENCE), AsyncPlane(place, patience=0.0) as plane:
            workloads = (await plane.list("workloads", namespace="*"))["items"]
        return {
            item["metadata"]["uid"]: {
                "namespace": item["metadata"].get("namespace", "default"),
                "model": (item["metadata"].get("labels") or {}).get("mizzen.dev/model", ""),
                "server": owner["name"],
            }
            for item in workloads
            for owner in item["metadata"].get("ownerReferences") or ()
        }

    try:
        return asyncio.run(ask())
    except (errors.MizzenError, TimeoutError):
        return {}


def _server_of(key: str, replicas: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The server of a replica process, by its key <uid of the Workload>.<index>; empty for other processes."""
    uid, _, index = key.rpartition(".")
    return {**replicas[uid], "replica": int(index)} if uid in replicas else {}


def _process_name(process: Mapping[str, Any]) -> str:
    return f"{process['server']} [{process['replica']}]" if "server" in process else str(process["key"])
