"""Start of a plane, or discovery of the running one: writes the processes to run, and starts a supervisor."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mizzen import __version__
from mizzen.sdk.connection import locate
from mizzen.settings import Settings
from mizzen.supervisor import launch
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes.log_rotation import LogRetention
from mizzen.supervisor.protocol import KEPT_MEMORY, Boot, Listener, ProcessSpec

RANK_GATEWAY, RANK_PLANE = 0, 1
"""The order of stopping: first gateways, so that no requests arrive, then the plane; runtimes follow with rank 2."""


@dataclass(frozen=True, slots=True)
class RunningPlane:
    """A plane that was started: its addresses, whether or not it is ready yet."""

    control_url: str
    inference_url: str
    data_dir: str
    supervisor_pid: int
    already_running: bool


def find(home: Home) -> RunningPlane | None:
    """The plane that runs in this data dir and keeps running; waits some seconds while that is uncertain."""
    info = launch.wait_until_settled(home)
    return None if info is None else _describe(info, already=True)


def settings_of(home: Home) -> Settings | None:
    """The settings that the plane of this data dir was last started with; None: unknown."""
    try:
        texts = [process.env["MIZZEN_SETTINGS"] for process in Boot.read(home.boot).processes]
        return Settings.from_json(texts[0])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def release_of(home: Home) -> str:
    """The version of Mizzen that the plane of this data dir was last started with; empty: unknown."""
    try:
        return Boot.read(home.boot).release
    except ValueError:
        return ""


def start(settings: Settings) -> RunningPlane:
    """Start the supervisor of this data dir, for when `find` found none. Raises launch.StartFailed.

    The supervisor ends unless a tether is attached to it soon: a starter that dies leaves nothing behind.
    """
    home = Home.of(settings.root)
    home.prepare()
    boot(settings, home).write(home.boot)
    started = launch.launch(home, python=sys.executable, tethered=True)
    info = launch.alive(home)
    if info is None:
        raise launch.StartFailed("the supervisor ended right after its start")
    return _describe(info, already=not started)


def _describe(info: Mapping[str, Any], *, already: bool) -> RunningPlane:
    control_url, inference_url = locate.urls(info)
    return RunningPlane(control_url, inference_url, info["data_dir"], info["pid"], already_running=already)


def boot(settings: Settings, home: Home) -> Boot:
    """The sockets that the supervisor holds, and the processes that it starts by itself: the plane and the gateways."""

    def process(key: str, role: str, rank: int) -> ProcessSpec:
        return ProcessSpec(
            key=key,
            argv=(sys.executable, "-P", "-m", "mizzen.assemble", role),
            env={"MIZZEN_SETTINGS": settings.to_json(), **(KEPT_MEMORY if role == "gateway" else {})},
            cwd=str(settings.root),
            log=str(home.logs / f"{key}.log"),
            grace=settings.stop_timeout,
            listeners=True,
            rank=rank,
        )

    tls = "-tls" if settings.inference_tls else ""
    return Boot(
        listeners=(
            Listener("control", settings.plain_host, settings.port),
            Listener("control-tls", settings.host, settings.tls_port),
            Listener(f"inference{tls}", settings.host, settings.inference_port),
            Listener(f"grpc{tls}", settings.host, settings.grpc_port),
        ),
        processes=(
            process("plane", "plane", RANK_PLANE),
            *(process(name, "gateway", RANK_GATEWAY) for name in gateway_names(settings)),
        ),
        stop_timeout=settings.stop_timeout,
        logs=LogRetention(settings.log_bytes, settings.log_files, settings.log_days),
        release=__version__,
    )


def gateway_names(settings: Settings) -> list[str]:
    """The keys of the gateway processes."""
    return [f"gateway-{number}" for number in range(settings.gateways)]
